use std::io::Write;

use rawzip::ZipArchiveWriter;

use super::super::expand::expand;
use super::super::format::Format;
use super::*;

/// An archive with these members, deflated but for the last.
fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ZipArchiveWriter::new(&mut bytes);
    for (number, (name, text)) in (1..).zip(members) {
        let method = match number == members.len() {
            true => CompressionMethod::STORE,
            false => CompressionMethod::DEFLATE,
        };
        let (mut entry, config) =
            writer.new_file(*name).compression_method(method).start().unwrap();
        let descriptor = if method == CompressionMethod::STORE {
            let mut plain = config.wrap(&mut entry);
            plain.write_all(text.as_bytes()).unwrap();
            plain.finish().unwrap().1
        } else {
            let level = flate2::Compression::default();
            let encoder = flate2::write::DeflateEncoder::new(&mut entry, level);
            let mut plain = config.wrap(encoder);
            plain.write_all(text.as_bytes()).unwrap();
            let (encoder, descriptor) = plain.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        };
        entry.finish(descriptor).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

#[expect(clippy::disallowed_methods, reason = "the archive is another program's")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

const MEMBERS: [(&str, &str); 4] = [
    ("b.csv", "a\n2\n"),
    ("__MACOSX/a.csv", "junk"),
    ("d/c.jsonl", "{\"a\":3}\n"),
    ("a.csv", "a\n1\n"),
];

fn read(argument: &str) -> Result<Vec<(String, Format, String)>> {
    let inputs = expand(&[argument.to_owned()])?;
    let texts = inputs.into_iter().map(|input| {
        let name = input.name().file_name().unwrap().to_string_lossy().into_owned();
        assert!(input.size().is_some());
        let mut opened = input.open()?;
        assert_eq!(opened.path, None);
        let mut text = String::new();
        let read = opened.bytes.read_to_string(&mut text);
        read.map_err(|error| Error::io(&opened.name, error))?;
        Ok((name, opened.format, text))
    });
    texts.collect()
}

#[test]
fn members_are_inputs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.ZIP");
    write(&path, &archive(&MEMBERS));
    let path = path.to_str().unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let text = if name == "a" { "a\n1\n" } else { "a\n2\n" };
        (format!("{name}.csv"), Format::Csv, text.to_owned())
    });
    let c = ("c.jsonl".to_owned(), Format::Json, "{\"a\":3}\n".to_owned());
    let all = vec![a.clone(), b.clone(), c];
    assert_eq!(read(path).unwrap(), all);
    assert_eq!(read(directory.path().to_str().unwrap()).unwrap(), all);
    assert_eq!(read(&format!("{path}/*.csv")).unwrap(), [a.clone(), b]);
    assert_eq!(read(&format!("{path}/a.csv")).unwrap(), std::slice::from_ref(&a));
    assert_eq!(read(&format!("{}/*.ZIP", directory.path().display())).unwrap(), all);
    let error = read(&format!("{path}/nothing.csv")).unwrap_err().to_string();
    assert!(error.ends_with("x.ZIP: no file nothing.csv in it"), "{error}");
    // By its path alone, as a query names it.
    let mut text = String::new();
    let member = super::super::Input::path(format!("{path}/a.csv"));
    member.open().unwrap().bytes.read_to_string(&mut text).unwrap();
    assert_eq!(text, a.2);
}

/// Whatever is damaged gives an error or what was stored, and no panic.
#[test]
fn damaged_archives_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.zip");
    let sound = archive(&MEMBERS);
    let name = path.to_str().unwrap();
    for length in 0..sound.len() {
        write(&path, &sound[..length]);
        assert!(read(name).is_err(), "{length} bytes");
    }
    let texts = ["a\n1\n", "a\n2\n", "{\"a\":3}\n", "junk"];
    for byte in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[byte] ^= 1 << (byte % 8);
        write(&path, &damaged);
        for (_, _, text) in read(name).unwrap_or_default() {
            assert!(texts.contains(&&*text), "byte {byte}: {text:?}");
        }
    }
}
