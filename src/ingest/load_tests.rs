//! Whole loads of small texts into a table of small segments.

use std::io::{Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;

use super::*;
use crate::disk::{Disk as _, RealDisk};
use crate::ingest::resume::CommitEvery;
use crate::store::{Store, Table, TableOptions};

/// Rows of a segment: an input of this many rows fills one.
const ROWS: usize = 1024;

fn options() -> LoadOptions {
    LoadOptions { threads: 1, ..LoadOptions::default() }
}

fn text(name: &str, header: &str, value: &str, rows: usize) -> Input {
    let text = format!("{header}\n{}", format!("{value}\n").repeat(rows));
    Input::reader(name, Box::new(Cursor::new(text.into_bytes())))
}

fn table(dir: &tempfile::TempDir) -> Table {
    Store::open(dir.path()).table("t").unwrap()
}

fn load_into(table: &Table, inputs: Vec<Input>) -> Result<LoadReport> {
    let small = TableOptions {
        block_rows: ROWS as u32,
        segment_rows: ROWS as u32,
        ..TableOptions::default()
    };
    load(table.writer(Some((Schema::default(), small))).unwrap(), inputs, &options())
}

fn types(table: &Table) -> Vec<String> {
    table.snapshot().unwrap().schema().columns().iter().map(|c| c.data_type.to_string()).collect()
}

/// A load that would make stored values unreadable must be refused, whether the narrow values are
/// in an earlier generation or in an earlier segment of the same load.
#[test]
fn widening_over_segments_is_lossless_or_refused() {
    for (narrow, wide, possible) in [
        ("9007199254740993", "1.5", false),
        ("9007199254740992", "1.5", true),
        ("9999-12-31", "2020-01-01T00:00:00.123456789", false),
        ("2020-01-01", "2020-01-01T00:00:00.123456789", true),
        ("9999-12-31T00:00:00", "2020-01-01T00:00:00.123456789", false),
    ] {
        let inputs = || [text("a.csv", "v", narrow, ROWS), text("b.csv", "v", wide, 1)];
        let dir = tempfile::tempdir().unwrap();
        let at_once = load_into(&table(&dir), inputs().into());
        assert_eq!(at_once.is_ok(), possible, "{narrow} {wide} at once: {at_once:?}");
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = inputs();
        load_into(&table(&dir), vec![first]).unwrap();
        let after = load_into(&table(&dir), vec![second]);
        assert_eq!(after.is_ok(), possible, "{narrow} {wide} one after the other: {after:?}");
        assert_eq!(table(&dir).snapshot().unwrap().rows(), if possible { 1025 } else { 1024 });
    }
}

#[test]
fn a_later_input_takes_the_types_of_the_ones_before() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = vec![text("a.csv", "id,zip", "1,A12", 3), text("b.csv", "id,zip", "2,12345", 3)];
    assert_eq!(load_into(&table(&dir), inputs).unwrap().rows_stored, 6);
    assert_eq!(types(&table(&dir)), ["int64", "utf8"]);
}

#[test]
fn columns_that_some_inputs_lack_are_null_there() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = vec![
        text("a.csv", "a,b", "1,2", 2),
        text("b.csv", "a,c", "1,x", 2),
        text("c.csv", "b,a", "3,1", 2),
    ];
    load_into(&table(&dir), inputs).unwrap();
    let snapshot = table(&dir).snapshot().unwrap();
    let segment = snapshot.open_segment(&snapshot.segments().unwrap()[0]).unwrap();
    let shown = |at: usize| -> Vec<String> {
        let column = &snapshot.schema().columns()[at];
        let block = segment.column(column.id).unwrap().unwrap();
        let values = block.block(0).unwrap().decode(0..6).unwrap();
        (0..6).map(|i| arrow_cast::display::array_value_to_string(&values, i).unwrap()).collect()
    };
    assert_eq!(shown(0), ["1"; 6]);
    assert_eq!(shown(1), ["2", "2", "", "", "3", "3"]);
    assert_eq!(shown(2), ["", "", "x", "x", "", ""]);
}

/// Writes a file of more than one chunk; returns its row count.
fn long_csv(path: &std::path::Path, from: u64) -> u64 {
    let (rows, word) = (260_000, "w".repeat(60));
    let mut text = String::from("id,word\n");
    (from..from + rows).for_each(|id| text += &format!("{id},{word}{}\n", id % 7));
    std::fs::File::create_new(path).unwrap().write_all(text.as_bytes()).unwrap();
    rows
}

fn ids(table: &Table) -> Vec<u64> {
    let snapshot = table.snapshot().unwrap();
    let mut ids = Vec::new();
    for entry in snapshot.segments().unwrap().iter() {
        let segment = snapshot.open_segment(entry).unwrap();
        for block in 0..segment.blocks() {
            let range = segment.block_range(block);
            let rows = 0..(range.end - range.start) as usize;
            let batch = super::super::rewrite::decode(
                &segment,
                block,
                rows,
                &snapshot.schema().columns()[..1],
            )
            .unwrap();
            let values =
                arrow_cast::cast(batch.column(0), &arrow_schema::DataType::UInt64).unwrap();
            ids.extend_from_slice(values.as_primitive::<UInt64Type>().values());
        }
    }
    ids
}

#[test]
fn a_load_that_stopped_goes_on_where_its_last_commit_ended() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path().join("db")).table("t").unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows = long_csv(&path("a.csv"), 0);
    let often = LoadOptions {
        commit_every: Some(CommitEvery::Rows(1)),
        threads: 1,
        ..LoadOptions::default()
    };
    let load_files = |names: &[&str], options: &LoadOptions| {
        let inputs = names.iter().map(|name| Input::path(path(name))).collect();
        load(
            table.writer(Some((Schema::default(), TableOptions::default()))).unwrap(),
            inputs,
            options,
        )
    };
    // The second file is missing: the load stops there. The first one is committed, but not known
    // to be complete.
    assert!(load_files(&["a.csv", "b.csv"], &often).is_err());
    let before = table.snapshot().unwrap();
    let [known] = before.sources().unwrap().try_into().unwrap();
    assert!(
        !known.done && known.pieces > 0 && known.rows == before.rows() && before.rows() == rows,
        "{known:?}"
    );
    let more = long_csv(&path("b.csv"), rows);
    let report = load_files(&["a.csv", "b.csv"], &often).unwrap();
    assert_eq!((report.rows_stored, report.resumed.len()), (rows + more - before.rows(), 1));
    assert!(report.commits > 1);
    assert_eq!(ids(&table), (0..rows + more).collect::<Vec<_>>());
    let sources = table.snapshot().unwrap().sources().unwrap();
    let shown: Vec<_> =
        sources.iter().map(|source| (source.rows, source.done, source.hash.is_some())).collect();
    assert_eq!(shown, [(rows, true, true), (more, true, true)]);
    // A loaded input is refused, under another name too, or skipped, or loaded again.
    let refused = load_files(&["b.csv"], &options()).unwrap_err().to_string();
    assert!(refused.contains("--if-loaded skip"), "{refused}");
    std::fs::create_dir(path("moved")).unwrap();
    std::fs::copy(path("b.csv"), path("moved/b.csv")).unwrap();
    assert!(
        load_files(&["moved/b.csv"], &options())
            .unwrap_err()
            .to_string()
            .contains("loaded before as")
    );
    long_csv(&path("d.csv"), rows + more);
    let skip = LoadOptions { if_loaded: IfLoaded::Skip, ..options() };
    let report = load_files(&["a.csv", "d.csv", "moved/b.csv"], &skip).unwrap();
    assert_eq!((report.loaded_before.len(), report.rows_stored), (2, rows));
    let again = LoadOptions { if_loaded: IfLoaded::Again, ..options() };
    assert_eq!(load_files(&["a.csv"], &again).unwrap().rows_stored, rows);
}

/// Where a load commits depends only on its input and options.
#[test]
fn commits_are_the_same_for_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let rows =
        long_csv(&dir.path().join("a.csv"), 0) + long_csv(&dir.path().join("b.csv"), 260_000);
    let commits = |name: &str, threads, every| {
        let table = Store::open(dir.path().join("db")).table(name).unwrap();
        let options = LoadOptions { commit_every: Some(every), threads, ..LoadOptions::default() };
        let inputs = ["a.csv", "b.csv"].map(|name| Input::path(dir.path().join(name))).into();
        let writer = table.writer(Some((Schema::default(), TableOptions::default()))).unwrap();
        let report = load(writer, inputs, &options).unwrap();
        assert_eq!(report.rows_stored, rows);
        let segments = table.snapshot().unwrap().segments().unwrap();
        (
            report.commits,
            segments.iter().map(|segment| (segment.rows, segment.footer_crc)).collect::<Vec<_>>(),
        )
    };
    for every in [CommitEvery::Rows(50_000), CommitEvery::Bytes(6 << 20)] {
        let one = commits(&format!("one{every:?}").replace(['(', ')'], ""), 1, every);
        assert!(one.0 > 2, "{one:?}");
        let five = commits(&format!("five{every:?}").replace(['(', ')'], ""), 5, every);
        assert_eq!(
            (one.0, one.1.iter().map(|s| s.0).collect::<Vec<_>>()),
            (five.0, five.1.iter().map(|s| s.0).collect())
        );
    }
}

/// A row is held several times while it is read, parsed and stored.
#[test]
fn a_row_may_have_an_eighth_of_the_memory_limit() {
    let dir = tempfile::tempdir().unwrap();
    let options = |limit| LoadOptions { memory_limit: Some(limit), ..options() };
    let long = "x".repeat(13 << 20);
    let inputs = [
        ("a.csv", format!("a,b\n1,{long}\n2,y\n")),
        ("b.csv", format!("a,b\n1,\"{long}\"\n2,y\n")),
        ("c.jsonl", format!("{{\"a\": 1, \"b\": \"{long}\"}}\n")),
        ("d.json", format!("[{{\"a\": 1, \"b\": \"{long}\"}}]")),
    ];
    for (name, text) in inputs {
        let table = Store::open(dir.path()).table(name).unwrap();
        let load_within = |limit| {
            let input = Input::reader(name, Box::new(Cursor::new(text.clone().into_bytes())));
            let writer = table.writer(Some((Schema::default(), TableOptions::default()))).unwrap();
            load(writer, vec![input], &options(limit))
        };
        let refusal = load_within(64 << 20).unwrap_err();
        assert!(matches!(refusal, Error::LimitExceeded(_)), "{name}: {refusal}");
        let what = "is longer than 8 MiB, an eighth of the memory limit; raise --memory-limit";
        assert!(refusal.to_string().contains(what), "{name}: {refusal}");
        assert!(load_within(256 << 20).unwrap().rows_stored > 0, "{name}");
    }
}

/// The message has the file, line and value of both sides.
#[test]
fn inputs_that_do_not_go_together_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::File::create_new(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    };
    let a = file("a.csv", "id,zip\n1,\n2,12345\n");
    let b = file("b.csv", "zip;id\n7;1\n01234;3\n");
    let c = file("c.jsonl", "{\"zip\": 5}\n{\"zip\": null}\n{\"zip\": \"A 1\"}\n");
    let readme = file("README.txt", "Some words\nabout data\n");
    let refused = |table: &str, files: &[&std::path::PathBuf]| {
        let table = Store::open(dir.path().join("db")).table(table).unwrap();
        let inputs = files.iter().map(Input::path).collect();
        load_into(&table, inputs).unwrap_err().to_string()
    };
    for (files, sides) in [
        (
            [&a, &b],
            [
                "int64 in ",
                "a.csv (line 3: \"12345\") and utf8 in ",
                "b.csv (line 3: \"01234\"), and no",
            ],
        ),
        (
            [&a, &c],
            [
                "int64 in ",
                "a.csv (line 3: \"12345\") and utf8 in ",
                "c.jsonl (line 3: \"A 1\"), and no",
            ],
        ),
    ] {
        let error = refused("t", &files);
        for part in sides {
            assert!(error.contains(part), "{error}");
        }
        assert!(error.contains("column 'zip' is "), "{error}");
    }
    let error = refused("t", &[&readme, &a]);
    for part in [
        "a.csv (id, zip) are none of those of ",
        "README.txt (",
        "is not meant, name the others: '",
        "/*.csv'",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // What is in the table has no file any more.
    let table = Store::open(dir.path().join("db")).table("u").unwrap();
    load_into(&table, vec![Input::path(&a)]).unwrap();
    let error = refused("u", &[&b]);
    assert!(error.contains("is int64 in the table and utf8 in "), "{error}");
}

/// The time that is left comes of the bytes of the compressed file, which say how much there is.
#[test]
fn progress_of_a_compressed_file_counts_its_own_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv.gz");
    let mut rows = String::from("id,text\n");
    (0..100_000u64).for_each(|id| rows += &format!("{id},{:x}\n", id.wrapping_mul(0x9E37_79B9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(rows.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    crate::disk::durable::write_new(&RealDisk, &path, &packed).unwrap();
    let length = packed.len() as u64;
    assert!(length < rows.len() as u64);
    let options = options();
    let (progress, ended) = (Arc::clone(&options.progress), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&ended);
    let watching = std::thread::spawn(move || {
        let mut samples = vec![0];
        while !seen.load(Ordering::Relaxed) {
            samples.push(progress.bytes());
            assert!([None, Some(length)].contains(&progress.total_bytes()));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        samples
    });
    let writer = table(&dir).writer(Some((Schema::default(), TableOptions::default()))).unwrap();
    let report = load(writer, vec![Input::path(&path)], &options).unwrap();
    ended.store(true, Ordering::Relaxed);
    assert_eq!(report.rows_stored, 100_000);
    let samples = watching.join().unwrap();
    assert!(samples.is_sorted() && samples.iter().all(|bytes| *bytes <= length), "{samples:?}");
    assert_eq!(options.progress.bytes(), length);
    assert_eq!(options.progress.total_bytes(), Some(length));
}

/// A load that is killed between its commit and the renaming leaves its rejected rows under a
/// hidden name, and nothing to load.
#[test]
fn rejected_rows_of_a_killed_load_get_their_name_from_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let [input, rejects] = ["a.csv", "bad.csv"].map(|name| dir.path().join(name));
    std::io::Write::write_all(
        &mut std::fs::File::create_new(&input).unwrap(),
        b"a,b\n1,x\nq\n2,y\n",
    )
    .unwrap();
    let table = Store::open(dir.path().join("db")).table("t").unwrap();
    let load_rejecting = || {
        let on_error = OnError::Reject { file: rejects.clone(), replace: false };
        let options = LoadOptions { on_error, ..options() };
        let writer = table.writer(Some((Schema::default(), TableOptions::default()))).unwrap();
        load(writer, vec![Input::path(&input)], &options)
    };
    assert_eq!(load_rejecting().unwrap().rows_rejected, 1);
    let whole = std::fs::read(&rejects).unwrap();
    let id = table.snapshot().unwrap().sources().unwrap()[0].load;
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let hidden = dir.path().join(format!(".sty-rejects-{id}"));
    RealDisk.rename(&rejects, &hidden).unwrap();
    let error = load_rejecting().unwrap_err().to_string();
    assert!(error.contains("was loaded before"), "{error}");
    assert!(error.contains("the rows that it rejected are in "), "{error}");
    assert_eq!(std::fs::read(&rejects).unwrap(), whole);
    assert!(!hidden.exists());
    // Once is enough, and a file that is there stays.
    let error = load_rejecting().unwrap_err().to_string();
    assert!(!error.contains("rejected are in"), "{error}");
    assert_eq!(std::fs::read(&rejects).unwrap(), whole);
}
