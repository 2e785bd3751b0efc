use std::io::Write;

use super::*;

fn content(input: Input) -> (Format, String) {
    let mut opened = input.open().unwrap();
    let mut text = String::new();
    opened.bytes.read_to_string(&mut text).unwrap();
    (opened.format, text)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn reader(name: &str, bytes: Vec<u8>) -> Input {
    Input::reader(name, Box::new(Cursor::new(bytes)))
}

#[test]
fn compression_is_told_by_the_first_bytes() {
    let text = "a,b\n1,2\n".repeat(300_000);
    let members = [gzip(&text.as_bytes()[..8]), gzip(&text.as_bytes()[8..])].concat();
    let input = reader("x.tsv.gz", members.clone());
    let consumed = input.consumed();
    assert!(content(input) == (Format::Tsv, text.clone()));
    assert_eq!(consumed.load(Ordering::Relaxed), members.len() as u64);
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert!(content(reader("misleading.gz", zstd.clone())) == (Format::Csv, text.clone()));
    assert!(content(reader("x.csv.zst", text.clone().into_bytes())) == (Format::Csv, text));
    let cut = zstd[..zstd.len() / 2].to_vec();
    let mut opened = reader("cut.zst", cut).open().unwrap();
    assert!(opened.bytes.read_to_end(&mut Vec::new()).is_err());
    let cut = members[..members.len() / 2].to_vec();
    let error = reader("cut.gz", cut).open().unwrap().bytes.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(matches!(read_error(Path::new("cut.gz"), error), Error::InvalidInput(_)));
}

#[test]
fn formats() {
    assert_eq!(content(reader("x.csv", b"PAR1....".to_vec())).0, Format::Parquet);
    for (name, bytes) in
        [("a", &b"ARROW1\0\0"[..]), ("a.jsonl", b"{}"), ("a.bz2", b"BZh9..."), ("a.zip", b"PK\x03\x04")]
    {
        assert!(matches!(reader(name, bytes.to_vec()).open(), Err(Error::Unsupported(_))), "{name}");
    }
    assert_eq!(content(reader("empty", Vec::new())).0, Format::Csv);
}

#[test]
fn arguments_expand_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir(path("sub")).unwrap();
    for name in ["b.csv", "a.csv", "sub/c.csv", ".hidden", "_SUCCESS", "odd[1].csv"] {
        File::create_new(path(name)).unwrap();
    }
    let names = |arguments: &[String]| -> Vec<String> {
        let inputs = expand(arguments).unwrap();
        inputs.iter().map(|i| i.name().file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let argument = |name: &str| path(name).to_string_lossy().into_owned();
    assert_eq!(names(&[argument("")]), ["a.csv", "b.csv", "odd[1].csv", "c.csv"]);
    assert_eq!(names(&[argument("?.csv"), "-".into()]), ["a.csv", "b.csv", "<stdin>"]);
    assert_eq!(names(&[argument("odd[1].csv")]), ["odd[1].csv"]);
    for missing in ["nope.csv", "*.nope", "sub/*/x"] {
        assert!(matches!(expand(&[argument(missing)]), Err(Error::NotFound(_))), "{missing}");
    }
    assert!(matches!(Input::path(path("nope")).open(), Err(Error::NotFound(_))));
}
