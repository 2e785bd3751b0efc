// pg (node-postgres) for Node.js. run.sh says how it is run.

import assert from 'node:assert/strict'
import pg from 'pg'

const place = {
  host: process.env.STY_HOST,
  port: Number(process.env.STY_PG_PORT),
  user: 'anna',
  database: 'db',
}
const client = new pg.Client(place)
await client.connect()

/** The rows of an answer, as arrays. */
async function rows(text, values, more) {
  return (await client.query({ text, values, rowMode: 'array', ...more })).rows
}

/** Checks that a statement fails with this code. */
async function fails(code, work) {
  await assert.rejects(work, (error) => {
    assert.equal(error.code, code, String(error))
    return true
  })
}

const at = new Date(2024, 1, 29, 12, 34, 56, 789)
const zoned = new Date('2024-02-29T12:34:56.001Z')

/** Tables, rows and values of all types. */
async function values() {
  await client.query('DROP TABLE IF EXISTS node')
  await client.query(
    'CREATE TABLE node (id BIGINT, n INTEGER, s SMALLINT, b BOOLEAN, r REAL, d DOUBLE PRECISION, ' +
      'p NUMERIC(12, 2), t TEXT, y BYTEA, day DATE, clock TIME, at TIMESTAMP, zoned TIMESTAMPTZ)',
  )
  const row = [1, -2, 3, true, 1.5, 0.1, '12.50', 'it\'s\t\\ "ü"\n', Buffer.from([0, 255, 39])]
  const given = [...row, '1969-12-31', '01:02:03.5', at, zoned]
  const marks = given.map((_, index) => `$${index + 1}`).join(', ')
  const done = await client.query(`INSERT INTO node VALUES (${marks})`, given)
  assert.deepEqual([done.command, done.rowCount], ['INSERT', 1])
  const nothing = await client.query(`INSERT INTO node VALUES (${marks})`, given.map(() => null))
  assert.equal(nothing.rowCount, 1)
  // Eight bytes are texts here, and dates are midnight where the client is.
  const expected = ['1', ...row.slice(1), new Date(1969, 11, 31), '01:02:03.5', at, zoned]
  for (const more of [{}, { name: 'all' }, { name: 'all' }]) {
    const found = await rows('SELECT * FROM node ORDER BY id NULLS LAST', [], more)
    assert.deepEqual(found, [expected, given.map(() => null)])
  }
  const found = await client.query('SELECT id, city AS "The City" FROM trips WHERE id = $1', [1])
  assert.deepEqual(found.rows, [{ id: '1', 'The City': 'Oslo' }])
  const types = found.fields.map((it) => [it.name, it.dataTypeID])
  assert.deepEqual(types, [['id', 20], ['The City', 25]])
  const equal = 'SELECT t FROM node WHERE at = $1 AND y = $2'
  assert.deepEqual(await rows(equal, [at, row[8]]), [[row[7]]])
}

/** Arrays, which are texts as parameters. */
async function arrays() {
  assert.deepEqual(await rows('SELECT $1::INT[] AS l', [[1, null, -2]]), [[[1, null, -2]]])
  const texts = ['a', null, 'b"{},\\', '']
  assert.deepEqual(await rows('SELECT $1::TEXT[] AS l', [texts]), [[texts]])
  assert.deepEqual(await rows('SELECT ARRAY[true, NULL] AS l'), [[[true, null]]])
}

async function any_of_them() {
  const sql = 'SELECT id FROM trips WHERE id = ANY($1) ORDER BY id'
  assert.deepEqual(await rows(sql, [[1, 3, 1000]]), [['1'], ['3']])
}

async function intervals() {
  const [[found]] = await rows("SELECT INTERVAL '14 months 3 days -1 hours -30 minutes' AS i")
  assert.deepEqual({ ...found }, { years: 1, months: 2, days: 3, hours: -1, minutes: -30 })
  const [[later]] = await rows("SELECT INTERVAL '-1 months 1 day' AS i")
  assert.deepEqual({ ...later }, { months: -1, days: 1 })
}

/** Several statements, blocks, and failures with their codes. */
async function statements() {
  const both = await client.query('SELECT 1::INT AS a; SELECT 2::INT AS b')
  assert.deepEqual(both.map((it) => it.rows), [[{ a: 1 }], [{ b: 2 }]])
  await fails('42P01', client.query('SELECT * FROM nope'))
  await fails('42703', client.query('SELECT nope FROM trips'))
  await fails('42601', client.query('SELEC 1'))
  await fails('22012', client.query('SELECT 1 / $1::INT', [0]))
  await fails('22P02', client.query('SELECT $1::INT', ['x']))
  await client.query('BEGIN')
  await fails('42P01', client.query('SELECT * FROM nope'))
  await fails('25P02', client.query('SELECT 1'))
  await client.query('ROLLBACK')
  await client.query('BEGIN')
  await client.query('INSERT INTO node (id) VALUES ($1)', [50])
  await client.query('COMMIT')
  assert.deepEqual(await rows('SELECT count(*)::INT FROM node WHERE id = 50'), [[1]])
  const sql = 'SELECT g FROM generate_series(1, 200000) AS t(g)'
  assert.equal((await rows(sql)).reduce((sum, [g]) => sum + Number(g), 0), 20000100000)
  const [same, other] = await Promise.all([rows('SELECT $1::INT', [5]), rows('SELECT 6::INT')])
  assert.deepEqual([same, other], [[[5]], [[6]]])
}

/** Many connections, time-outs, and what is asked for by more than one name. */
async function pools() {
  const pool = new pg.Pool({ ...place, max: 8 })
  const asked = Array.from({ length: 100 }, (_, n) => pool.query('SELECT $1::INT AS n', [n]))
  assert.deepEqual((await Promise.all(asked)).map((it) => it.rows[0].n), asked.map((_, n) => n))
  await pool.end()
  const hurried = new pg.Client({ ...place, statement_timeout: 200 })
  await hurried.connect()
  const endless =
    'SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000) b'
  await fails('57014', hurried.query(endless))
  assert.equal((await hurried.query('SELECT 1::INT AS a')).rows[0].a, 1)
  await hurried.end()
}

/** What ORMs ask of information_schema. */
async function information() {
  const tables = await rows(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' " +
      "AND table_type = 'BASE TABLE' AND table_name IN ('trips', 'node', 'x') ORDER BY 1",
  )
  assert.deepEqual(tables, [['node'], ['trips']])
  const columns = await rows(
    'SELECT column_name, data_type, is_nullable, ordinal_position, udt_name ' +
      "FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position",
    ['trips'],
  )
  assert.deepEqual(columns, [
    ['id', 'bigint', 'NO', 1, 'int8'],
    ['city', 'text', 'YES', 2, 'text'],
    ['fare', 'double precision', 'YES', 3, 'float8'],
    ['day', 'date', 'YES', 4, 'date'],
    ['at', 'timestamp without time zone', 'YES', 5, 'timestamp'],
  ])
}

const failed = []
for (const check of [values, arrays, any_of_them, intervals, statements, pools, information]) {
  try {
    await check()
  } catch (error) {
    console.log(`${check.name}: ${error.message}`)
    failed.push(check.name)
    await client.query('ROLLBACK')
  }
}
await client.query('DROP TABLE IF EXISTS node')
await client.end()
console.log(failed.length ? `failed: ${failed}` : 'ok')
process.exitCode = failed.length ? 1 : 0
