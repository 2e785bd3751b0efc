// clickhouse-go over HTTP: its own interface, and that of database/sql. run.sh says how it is run.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/shopspring/decimal"
)

var (
	ctx     = context.Background()
	address = os.Getenv("STY_HOST") + ":" + os.Getenv("STY_PORT")
	at      = time.Date(2024, 1, 2, 3, 4, 5, 678000000, time.UTC)
	day     = time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)
)

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		log.Output(2, fmt.Sprintf("%#v is not %#v", found, expected))
		os.Exit(1)
	}
}

// Checks that an error is one of the server with this code.
func fails(code int32, err error) {
	var exception *clickhouse.Exception
	if !errors.As(err, &exception) || exception.Code != code {
		log.Output(2, fmt.Sprintf("no failure with code %d: %v", code, err))
		os.Exit(1)
	}
}

func pointer[T any](value T) *T { return &value }

func main() {
	log.SetFlags(log.Lshortfile)
	for _, method := range []clickhouse.CompressionMethod{
		clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionZSTD,
		clickhouse.CompressionGZIP, clickhouse.CompressionDeflate,
	} {
		conn, err := clickhouse.Open(&clickhouse.Options{
			Addr: []string{address}, Protocol: clickhouse.HTTP,
			Compression: &clickhouse.Compression{Method: method},
		})
		must(err)
		must(conn.Ping(ctx))
		native(conn)
		must(conn.Close())
	}
	throughSQL()
}

func native(conn driver.Conn) {
	must(conn.Exec(ctx, "DROP TABLE IF EXISTS go"))
	must(conn.Exec(ctx, `CREATE TABLE go (i8 Int8, i16 Int16, i32 Int32, i64 Int64 NOT NULL,
		u8 UInt8, u16 UInt16, u32 UInt32, u64 UInt64, f32 Float32, f64 Float64, b Bool,
		s Nullable(String), d Date32, t DateTime64(6), dec Decimal(18, 4))
		ENGINE = MergeTree ORDER BY i64`))

	// Columns are those of the table, of all simple types.
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO go")
	must(err)
	for i := range 1000 {
		must(batch.Append(int8(i%100), int16(i), int32(i), int64(i), uint8(i%200), uint16(i),
			uint32(i), uint64(i)<<53, float32(i)/2, float64(i)/4, i%2 == 0, fmt.Sprint("s'", i),
			day, at, decimal.New(125, -1)))
	}
	must(batch.Send())
	// Named columns; nulls.
	batch, err = conn.PrepareBatch(ctx, "INSERT INTO go (i64, s, f64)")
	must(err)
	must(batch.Append(int64(-1), nil, nil))
	must(batch.Send())
	type row struct {
		I64 int64   `ch:"i64"`
		S   *string `ch:"s"`
	}
	batch, err = conn.PrepareBatch(ctx, "INSERT INTO go (i64, s)")
	must(err)
	must(batch.AppendStruct(&row{-2, pointer("struct")}))
	must(batch.Send())
	must(conn.Exec(ctx, "INSERT INTO go (i64, s) VALUES (?, ?)", int64(-3), "it's"))
	must(conn.AsyncInsert(ctx, "INSERT INTO go (i64) VALUES (-4)", true))

	var rows []row
	must(conn.Select(ctx, &rows, "SELECT i64, s FROM go WHERE i64 < 0 ORDER BY i64"))
	equal(rows, []row{{-4, nil}, {-3, pointer("it's")}, {-2, pointer("struct")}, {-1, nil}})

	var (
		i8  int8
		i16 int16
		i32 int32
		i64 int64
		u8  uint8
		u16 uint16
		u32 uint32
		u64 uint64
		f32 float32
		f64 float64
		b   bool
		s   string
		d   time.Time
		t   time.Time
		dec decimal.Decimal
	)
	must(conn.QueryRow(ctx, "SELECT * FROM go WHERE i64 = 999").Scan(&i8, &i16, &i32, &i64, &u8,
		&u16, &u32, &u64, &f32, &f64, &b, &s, &d, &t, &dec))
	equal([]any{i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, b, s, d, t, dec.String()},
		[]any{int8(99), int16(999), int32(999), int64(999), uint8(199), uint16(999), uint32(999),
			uint64(999) << 53, float32(499.5), 249.75, false, "s'999", day, at, "12.5"})

	// Values beside the statement: by name in the server, by position in the client.
	must(conn.QueryRow(ctx, "SELECT {a:UInt8}, {s:String}", clickhouse.Named("a", 5),
		clickhouse.Named("s", "x'y")).Scan(&u8, &s))
	equal([]any{u8, s}, []any{uint8(5), "x'y"})
	must(conn.QueryRow(ctx, "SELECT count() FROM go WHERE i64 IN (?) AND t > ?",
		[]int64{1, 2, -1}, day).Scan(&i64))
	equal(i64, int64(2))
	// Items of lists may be null here.
	var numbers []*int64
	must(conn.QueryRow(ctx, "SELECT [1, NULL, 3]").Scan(&numbers))
	equal(numbers, []*int64{pointer(int64(1)), nil, pointer(int64(3))})
	equal(conn.QueryRow(ctx, "SELECT i64 FROM go WHERE i64 > 9999").Scan(&i64), sql.ErrNoRows)

	// Many rows, in many blocks.
	many, err := conn.Query(ctx, "SELECT value FROM range(300000)")
	must(err)
	sum := int64(0)
	for many.Next() {
		must(many.Scan(&i64))
		sum += i64
	}
	must(many.Err())
	equal(sum, int64(300000*299999/2))

	fails(60, conn.Exec(ctx, "SELECT * FROM nothing"))
	fails(47, conn.Exec(ctx, "SELECT nothing FROM trips"))
	fails(62, conn.Exec(ctx, "SELEC 1"))
	fails(57, conn.Exec(ctx, "CREATE TABLE go (a INT)"))
	late, err := conn.Query(ctx, "SELECT 10 / (value - 200000) FROM (SELECT value FROM range(300000))")
	if err == nil {
		for late.Next() {
		}
		err = late.Err()
	}
	fails(153, err)

	// A statement ends with its context.
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	err = conn.Exec(short, "SELECT count(*) FROM range(100000000000)")
	equal(errors.Is(err, context.DeadlineExceeded), true)
	time.Sleep(100 * time.Millisecond)
	must(conn.QueryRow(ctx, "SELECT count(*) FROM system.processes WHERE query LIKE '%100000000%' "+
		"AND query NOT LIKE '%system%'").Scan(&i64))
	equal(i64, int64(0))
}

func throughSQL() {
	db, err := sql.Open("clickhouse", "http://"+address+"/default?compress=lz4")
	must(err)
	must(db.Ping())
	transaction, err := db.Begin()
	must(err)
	insert, err := transaction.Prepare("INSERT INTO go (i64, s)")
	must(err)
	for i := range 5 {
		_, err := insert.Exec(int64(5000+i), "sql")
		must(err)
	}
	must(transaction.Commit())
	var n int64
	must(db.QueryRow("SELECT count(*) FROM go WHERE s = ?", "sql").Scan(&n))
	equal(n, int64(5))
	var s sql.NullString
	must(db.QueryRow("SELECT city FROM trips WHERE id = 3").Scan(&s))
	equal(s.Valid, false)
	_, err = db.Query("SELECT * FROM nothing")
	fails(60, err)
	_, err = db.Exec("DROP TABLE go")
	must(err)
	must(db.Close())
}
