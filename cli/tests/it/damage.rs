//! Damaged stores: what `verify` names, what `query` reads around, what `repair` restores.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use stylobate::Store;
use stylobate::internal::store::{Edit, NewSegment};

use crate::shell::Shell;

/// A table of three segments of a thousand rows each, a file each.
fn three() -> Shell {
    let shell = Shell::new();
    for part in 0..3 {
        let rows = (part * 1000..(part + 1) * 1000).map(|i| format!("{i},{}\n", i % 7));
        shell.file(&format!("{part}.csv"), "id,v\n".to_owned() + &rows.collect::<String>());
        shell.stdout(&format!("ingest -q db/t {part}.csv"));
    }
    shell
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&bytes).unwrap();
}

/// Damages the first block of the second file.
fn damaged() -> Shell {
    let shell = three();
    let mut files = shell.files("db/t/data", "sty");
    files.sort();
    flip(&files[1], 17);
    shell
}

#[test]
fn verify_lists_what_is_damaged() {
    let shell = damaged();
    let (code, stdout, _) = shell.run("verify db --format json");
    let found: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let first = &found[0];
    assert_eq!((code, found.as_array().unwrap().len()), (3, 1), "{stdout}");
    assert_eq!((&first["table"], &first["segment"]), (&"t".into(), &1.into()), "{stdout}");
    assert_eq!((&first["first_row"], &first["rows"]), (&0.into(), &1000.into()), "{stdout}");
    assert!(first["offset"].is_u64() && first["kind"] == "unreadable", "{stdout}");
    let (code, stdout, stderr) = shell.run("verify db/t");
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert!(stderr.contains("(table 't', segment 1, column '"), "{stderr}");
}

#[test]
fn queries_read_around_damage() {
    let shell = damaged();
    let sql = "SELECT count(*) AS n, max(id) AS m, sum(id) AS s FROM t";
    assert_eq!(shell.sh("sty query db 'SELECT sum(id + v) FROM t'").0, 3);
    let (code, stdout, stderr) = shell.sh(&format!("sty query db '{sql}' --skip-damaged"));
    assert_eq!((code, stdout.as_str()), (0, "n,m,s\n2000,2999,2999000\n"), "{stderr}");
    assert!(
        stderr.contains("t: the answer leaves out 1000 rows in 1 damaged segments"),
        "{stderr}"
    );
    assert!(stderr.contains("damaged: ") && stderr.contains("segment 1"), "{stderr}");
}

#[test]
fn repair_restores_the_rest_and_names_the_loss() {
    let shell = damaged();
    let (code, stdout, stderr) = shell.run("repair db --dry-run --format json");
    let lost: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &lost[0]["rows"], &lost[0]["segment"]), (0, &1000.into(), &1.into()));
    assert!(lost[0]["bounds"].as_str().unwrap().contains("id 1000 to 1999"), "{stdout}");
    let summary = "t: would commit a new generation of 2,000 rows, lose 1,000 rows and move 1 file";
    assert!(stderr.contains(summary), "{stderr}");
    assert_eq!(shell.run("verify -q db").0, 3);
    let (code, stdout, stderr) = shell.run("repair db/t");
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("t: lost: segment 1, 1,000 rows, with id 1000 to 1999"), "{stderr}");
    let summary = "t: committed generation 4 of 2,000 rows, lost 1,000 rows and moved 1 file";
    assert!(stderr.contains(summary), "{stderr}");
    shell.stdout("verify -q db");
    assert!(shell.run("repair db").2.contains("t: sound, nothing to repair"));
    let count = "sty query db 'SELECT count(*) AS n FROM t'";
    assert_eq!(shell.sh(count).1, "n\n2000\n");
    // A lost CURRENT.
    shell.sh("rm db/t/CURRENT");
    let (code, _, stderr) = shell.run("repair db/t");
    assert!(code == 0 && stderr.contains("CURRENT is missing"), "{stderr}");
    assert_eq!(shell.sh(count).1, "n\n2000\n");
    shell.stdout("ingest -q db/t 0.csv --if-loaded again");
    assert_eq!(shell.sh(count).1, "n\n3000\n");
}

#[test]
fn what_a_lost_root_named_is_told_and_moved() {
    let shell = three();
    shell.stdout("alter db/t keep 1d");
    shell.stdout("ingest -q db/t 0.csv --if-loaded again");
    shell.sh("rm db/t/manifest/*5.root");
    let (code, stdout, stderr) = shell.run("repair db --dry-run --format json");
    let lost: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &lost[0]["rows"], lost.as_array().unwrap().len()), (0, &1000.into(), 1));
    assert!(lost[0]["segment"].is_null() && stderr.contains("falls back to generation 4"));
    let (code, _, stderr) = shell.run("repair db");
    let summary = "t: committed generation 6 of 3,000 rows, lost 1,000 rows and moved 1 file";
    assert!(code == 0 && stderr.contains(summary), "{stderr}");
    shell.stdout("verify -q db");
}

#[test]
fn stores_with_tables_called_as_parts_of_a_table_are_repaired() {
    let shell = damaged();
    shell.sh("cp -r db/t db/data && cp -r db/t db/manifest && rm db/manifest/CURRENT");
    let (code, _, stderr) = shell.run("repair ./db");
    assert_eq!(code, 0, "{stderr}");
    for table in ["data", "manifest", "t"] {
        assert!(stderr.contains(&format!("{table}: committed generation 4")), "{stderr}");
    }
    let (code, _, stderr) = shell.run("repair db/data");
    assert!(code == 0 && stderr.contains("data: sound, nothing to repair"), "{stderr}");
}

#[test]
fn a_table_that_cannot_be_repaired_does_not_keep_others_from_it() {
    let shell = three();
    shell.sh("cp -r db/t db/a && rm -r db/t/manifest");
    let (code, _, stderr) = shell.run("repair db");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("a: sound") && stderr.contains("1 problem found"), "{stderr}");
    let (code, _, stderr) = shell.run("verify db");
    assert!(code == 3 && stderr.contains("1 problem found"), "{stderr}");
    assert!(stderr.contains("sty repair restores what can be restored"), "{stderr}");
}

/// Commits a generation whose manifest says that every value of the second segment is its least.
fn lie(shell: &Shell) {
    let table = Store::open(shell.path("db")).table("t").unwrap();
    let snapshot = table.snapshot().unwrap();
    let entry = snapshot.segments().unwrap()[1].clone();
    let columns = snapshot.schema().columns().iter();
    let stats = columns.map(|column| {
        let mut known = snapshot.column_stats(column.id).unwrap().swap_remove(1).unwrap();
        known.stats.max = known.stats.min.clone();
        (column.id, known.data_type, known.stats)
    });
    let stats = stats.collect();
    let mut writer = table.writer(None).unwrap();
    let mut file = writer.new_data_file().unwrap();
    file.write_all(&std::fs::read(snapshot.path(&entry)).unwrap()).unwrap();
    let new = NewSegment {
        file: file.uuid(),
        offset: 0,
        length: entry.length,
        uuid: entry.uuid,
        footer_crc: entry.footer_crc,
        rows: entry.rows,
        stats,
    };
    let mut changes = writer.changes();
    changes.edits.push(Edit { at: 1, remove: 1, insert: vec![new] });
    writer.commit_changes(changes).unwrap();
}

#[test]
fn false_statistics_are_put_right() {
    let shell = three();
    lie(&shell);
    let sql = "sty query db 'SELECT count(*) AS n FROM t WHERE id >= 1500 AND id < 1600'";
    assert_eq!(shell.sh(sql).1, "n\n0\n");
    let (code, _, stderr) = shell.run("verify db");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("sty repair puts right what is said of them"), "{stderr}");
    let (code, stdout, stderr) = shell.run("repair db --dry-run --format json");
    let listed: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let (first, count) = (&listed[0], listed.as_array().unwrap().len());
    assert_eq!((code, count, &first["outcome"]), (0, 1, &"rewritten".into()), "{stdout}");
    assert_eq!((&first["segment"], &first["rows"]), (&1.into(), &1000.into()), "{stdout}");
    assert!(first["why"].as_str().unwrap().contains("column 'id'"), "{stdout}");
    let summary =
        "t: would commit a new generation of 3,000 rows, write 1 segment anew, lose 0 rows";
    assert!(stderr.contains(summary), "{stderr}");
    assert_eq!(shell.run("verify -q db").0, 3);
    let (code, _, stderr) = shell.run("repair db");
    assert!(code == 0 && stderr.contains("t: written anew: segment 1, 1,000 rows: "), "{stderr}");
    let summary = "t: committed generation 5 of 3,000 rows, wrote 1 segment anew, lost 0 rows";
    assert!(stderr.contains(summary), "{stderr}");
    shell.stdout("verify -q db");
    assert_eq!(shell.sh(sql).1, "n\n100\n");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test damages a store")]
fn tables_tells_which_data_files_are_gone_or_cut() {
    let shell = three();
    assert!(shell.stdout("tables db").contains("t,3000,2,3,"), "{}", shell.stdout("tables db"));
    let mut files = shell.files("db/t/data", "sty");
    files.sort();
    let length = std::fs::metadata(&files[0]).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&files[0]).unwrap();
    file.set_len(length - 1).unwrap();
    let (code, stdout, stderr) = shell.run("tables db");
    assert!(code == 3 && stdout.ends_with(",damaged\n"), "{stdout}{stderr}");
    let what = format!("corrupt at byte {}: it ends here, but", length - 1);
    assert!(stderr.contains(&what), "{stderr}");
    file.set_len(length).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    let (code, stdout, stderr) = shell.run("tables db");
    assert!(code == 3 && stdout.contains("t,3000,2,3,"), "{stdout}{stderr}");
    assert!(stderr.contains("it is missing, but the manifest names it\n"), "{stderr}");
    std::fs::remove_dir_all(shell.path("db/t/data")).unwrap();
    let (code, _, stderr) = shell.run("tables db");
    assert!(code == 3 && stderr.contains("it; 2 more of its files are missing"), "{stderr}");
}

/// Links that lead back to themselves, where files of a table were.
#[expect(clippy::disallowed_methods, reason = "the test damages a store")]
#[test]
fn links_to_themselves_are_damage() {
    let becomes_link = |shell: &Shell, path: &Path| {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap();
        for command in ["tables db", "verify -q db", "query db 'SELECT sum(id + v) FROM t'"] {
            let (code, _, stderr) = shell.sh(&format!("sty {command}"));
            assert_eq!(code, 3, "{command}: {stderr}");
            assert!(stderr.contains("leads back to itself"), "{command}: {stderr}");
        }
        let (code, _, stderr) = shell.run("repair db");
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(shell.run("verify -q db").0, 0);
    };
    let shell = three();
    becomes_link(&shell, &shell.path("db/t/CURRENT"));
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM t"), "n\n3000\n");
    let mut files = shell.files("db/t/data", "sty");
    files.sort();
    becomes_link(&shell, &files[1]);
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM t"), "n\n2000\n");
}

/// A table without `CURRENT` is damaged for every command, whatever keeps its newest root from
/// being read.
#[expect(clippy::disallowed_methods, reason = "the test damages a store")]
#[test]
fn without_current_a_root_that_cannot_be_read_is_damage() {
    let shell = three();
    let mut roots = shell.files("db/t/manifest", "root");
    roots.sort();
    let newest = roots.last().unwrap();
    std::fs::remove_file(shell.path("db/t/CURRENT")).unwrap();
    // Of a size that no reader believes, which tells nothing of its bytes.
    std::fs::OpenOptions::new().write(true).open(newest).unwrap().set_len(1 << 40).unwrap();
    for command in ["tables db", "verify -q db", "repair db --dry-run", "repair db"] {
        let (code, _, stderr) = shell.run(command);
        assert_eq!(code, 3, "{command}: {stderr}");
        assert!(stderr.contains("CURRENT"), "{command}: {stderr}");
    }
}
