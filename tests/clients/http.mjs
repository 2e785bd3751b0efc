// @clickhouse/client for Node.js. run.sh says how it is run.

import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { ClickHouseError, createClient } from '@clickhouse/client'

const url = `http://${process.env.STY_HOST}:${process.env.STY_PORT}`
// Failures are expected, and need no report.
const options = { url, log: { level: 127 } }
const client = createClient(options)

/** The rows of an answer, as objects. */
async function rows(query, query_params) {
  return (await client.query({ query, query_params, format: 'JSONEachRow' })).json()
}

/** Checks that a statement fails with this type. */
async function fails(type, work) {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof ClickHouseError, String(error))
    assert.equal(error.type, type, error.message)
    return true
  })
}

assert.deepEqual(await client.ping(), { success: true })
const whole = await (await client.query({ query: 'SELECT 1 AS a', format: 'JSON' })).json()
assert.deepEqual([whole.data, whole.rows, whole.meta[0].name], [[{ a: 1 }], 1, 'a'])
assert.deepEqual(await rows('SELECT id, city FROM trips ORDER BY id'), [
  { id: 1, city: 'Oslo' },
  { id: 2, city: 'it\'s "Bergen"' },
  { id: 3, city: null },
])

// Values of parameters.
const query =
  'SELECT {n:UInt8} AS n, {s:String} AS s, {b:Bool} AS b, {f:Float64} AS f, ' +
  '{x:Nullable(String)} AS camelCase'
const given = { n: 7, s: "it's\t\\ ü\n", b: true, f: 1.5 }
assert.deepEqual(await rows(query, { ...given, x: null }), [{ ...given, camelCase: null }])
assert.equal((await rows('SELECT * FROM {t:Identifier}', { t: 'trips' })).length, 3)
await fails('UNKNOWN_QUERY_PARAMETER', rows('SELECT {n:UInt8}'))

// Rows in: objects, arrays, streams of either, text, compressed.
await client.command({
  query: 'CREATE TABLE js (id UInt64, name Nullable(String)) ENGINE = MergeTree ORDER BY id',
})
const insert = async (more) => {
  const done = await client.insert({ table: 'js', format: 'JSONEachRow', ...more })
  return Number(done.summary.written_rows)
}
assert.equal(await insert({ values: [{ id: 1, name: 'x' }, { id: 2, name: "y'z" }] }), 2)
assert.equal(await insert({ values: [{ id: 3 }], columns: ['id'] }), 1)
assert.equal(await insert({ values: [[4, 'q'], [5, null]], format: 'JSONCompactEachRow' }), 2)
assert.equal(await insert({ values: [['id'], [6]], format: 'JSONCompactEachRowWithNames' }), 1)
const made = function* () {
  for (let id = 10; id < 2010; id++) yield { id, name: `[${id}]"` }
}
assert.equal(await insert({ values: Readable.from(made()) }), 2000)
const text = Readable.from(['3000,"csv"\n', '3001,more\n'], { objectMode: false })
assert.equal(await insert({ values: text, format: 'CSV' }), 2)
const sums = await rows('SELECT count(*) AS n, sum(id) AS s FROM js')
assert.deepEqual(sums, [{ n: 2008, s: 2025022 }])
await fails('INCORRECT_DATA', insert({ values: [[1]], format: 'JSONCompactEachRow' }))
const packed = createClient({ ...options, compression: { request: true, response: true } })
await packed.insert({ table: 'js', values: [{ id: 1 }], format: 'JSONEachRow' })
const found = await packed.query({ query: 'SELECT count(*) AS n FROM js', format: 'JSONEachRow' })
assert.deepEqual(await found.json(), [{ n: 2009 }])
await packed.close()

// Rows out as a stream.
const all = await client.query({ query: 'SELECT value FROM range(300000)', format: 'JSONEachRow' })
let count = 0
for await (const some of all.stream()) count += some.length
assert.equal(count, 300000)

// Failures have their type, also behind the first rows.
await fails('UNKNOWN_TABLE', rows('SELECT * FROM nothing'))
await fails('UNKNOWN_IDENTIFIER', rows('SELECT nothing FROM trips'))
await fails('SYNTAX_ERROR', rows('SELEC 1'))
await fails('TABLE_ALREADY_EXISTS', client.command({ query: 'CREATE TABLE js (a INT)' }))
await fails('UNKNOWN_STORAGE', client.command({ query: 'CREATE TABLE x (a INT) ENGINE = Kafka' }))
await assert.rejects(
  rows('SELECT 10 / (value - 200000) AS q FROM (SELECT value FROM range(300000))'),
  /division by zero|aborted/,
)

// A query that is given up ends on the server.
const abort = new AbortController()
const endless = 'SELECT count(*) FROM range(100000000000)'
const given_up = client.query({ query: endless, query_id: 'endless', abort_signal: abort.signal })
const rejected = assert.rejects(given_up, /aborted/)
const running = "SELECT query FROM system.processes WHERE query_id = 'endless'"
for (let i = 0; i < 100 && (await rows(running)).length === 0; i++) await sleep(20)
assert.equal((await rows(running)).length, 1)
abort.abort()
await rejected
await sleep(100)
assert.deepEqual(await rows(running), [])

await client.command({ query: 'DROP TABLE js' })
await client.close()
