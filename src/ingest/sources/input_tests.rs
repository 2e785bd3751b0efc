use std::io::Write;

use super::super::expand::expand;
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
    let error =
        reader("cut.gz", cut).open().unwrap().bytes.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(matches!(read_error(Path::new("cut.gz"), error), Error::InvalidInput(_)));
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn lz4(text: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

type Compress = fn(&[u8]) -> Vec<u8>;

#[test]
fn several_streams_and_damage() {
    let text = "a,b\n1,2\n".repeat(1000);
    let zstd: Compress = |text| zstd::encode_all(text, 1).unwrap();
    for (name, compress) in
        [("gzip", gzip as Compress), ("zstd", zstd), ("bzip2", bzip2), ("lz4", lz4)]
    {
        let (head, tail) = text.as_bytes().split_at(4321);
        let first = compress(head);
        let both = [first.clone(), compress(b""), compress(tail)].concat();
        assert!(content(reader("x", both.clone())) == (Format::Csv, text.clone()), "{name}");
        // Truncated, it is an error, or the text up to the end of a stream, or too short to look
        // compressed.
        for end in 0..both.len() {
            let Ok(mut opened) = reader("x", both[..end].to_vec()).open() else { continue };
            let mut read = Vec::new();
            if opened.bytes.read_to_end(&mut read).is_ok() && end > 16 {
                assert!(read == head && end >= first.len(), "{name} {end}: {}", read.len());
            }
        }
        let mut damaged = both.clone();
        damaged[first.len() / 2] ^= 0x55;
        let read = reader("x", damaged).open().and_then(|mut opened| {
            opened.bytes.read_to_end(&mut Vec::new()).map_err(|e| read_error(Path::new("x"), e))
        });
        // The others have checksums only if their writer wants them.
        let checked = matches!(name, "gzip" | "bzip2");
        assert!(
            matches!(read, Err(Error::InvalidInput(_))) || (read.is_ok() && !checked),
            "{name}: {read:?}"
        );
    }
    // A text that starts like bzip2.
    assert_eq!(content(reader("x", b"BZh9,a\n1,2\n".to_vec())).0, Format::Csv);
}

#[test]
fn zeros_may_follow_gzip_and_nothing_else() {
    let text = "a,b\n1,2\n".repeat(1000);
    let members = [gzip(&text.as_bytes()[..8]), gzip(&text.as_bytes()[8..])].concat();
    for zeros in [1, 512, 200_000] {
        let padded = [&members[..], &vec![0; zeros]].concat();
        assert!(content(reader("x", padded.clone())) == (Format::Csv, text.clone()), "{zeros}");
        for behind in [&b"x"[..], &members] {
            // A small file is read as soon as it is opened.
            let opened = reader("x", [&padded[..], behind].concat()).open();
            let read = opened.map_err(|error| error.to_string()).and_then(|mut opened| {
                let read = opened.bytes.read_to_end(&mut Vec::new());
                read.map_err(|error| error.to_string())
            });
            let error = read.unwrap_err();
            assert!(error.contains("none of gzip"), "{error}");
        }
    }
}

#[test]
fn formats() {
    for (name, bytes, format) in [
        ("x.csv", &b"PAR1...."[..], Format::Parquet),
        ("a", b"ARROW1\0\0", Format::Arrow),
        ("a", b"\xff\xff\xff\xff\x10\0\0\0", Format::Arrow),
        ("a.arrows", b"\x10\0\0\0", Format::Arrow),
        ("a.jsonl.gz", b"x", Format::Json),
        ("<stdin>", b" \n{\"a\":1}", Format::Json),
        ("<stdin>", b"\xef\xbb\xbf[{", Format::Json),
        ("a.csv", b"[1],2", Format::Csv),
        ("empty", b"", Format::Csv),
    ] {
        assert_eq!(reader(name, bytes.to_vec()).open().unwrap().format, format, "{name} {bytes:?}");
    }
    for (name, bytes) in [("a.feather", &b"FEA1...."[..]), ("a.zip", b"PK\x03\x04")] {
        assert!(
            matches!(reader(name, bytes.to_vec()).open(), Err(Error::Unsupported(_))),
            "{name}"
        );
    }
    for name in ["a.parquet", "a.arrow"] {
        assert!(
            matches!(reader(name, b"a,b\n".to_vec()).open(), Err(Error::InvalidInput(_))),
            "{name}"
        );
    }
}

#[test]
fn text_in_other_encodings() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    let json = "\u{feff}{\"a\":\"é\"}";
    let plain = json.trim_start_matches('\u{feff}').to_owned();
    // By its byte-order mark, compressed or not.
    assert_eq!(content(reader("x", utf16(json))), (Format::Json, plain.clone()));
    assert_eq!(content(reader("x", bzip2(&utf16(json)))), (Format::Json, plain));
    let latin = || reader("x.csv", b"a\ncaf\xe9\n".to_vec()).encoded("latin1".parse().unwrap());
    assert_eq!(content(latin()), (Format::Csv, "a\ncafé\n".to_owned()));
    // The mark overrides the option.
    let marked =
        reader("x.csv", "\u{feff}é".as_bytes().to_vec()).encoded("latin1".parse().unwrap());
    assert_eq!(content(marked).1, "\u{feff}é");
}

/// A README among data is no data, and the message says how to leave it out.
#[test]
fn a_directory_of_data_and_something_else_is_refused() {
    for (names, pattern) in [
        (&["README", "a.csv", "b.csv", "c.json"][..], Some("*.csv'")),
        (&["a.csv.gz", "b.csv", "notes.md"], Some("*.csv*'")),
        (&["x=1/a.parquet", "x=1/README"], Some("**/*.parquet'")),
        (&["a.csv", "b.txt", ".README", "_SUCCESS"], None),
        (&["part-0", "part-1"], None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::create_dir_all(directory.path().join(name).parent().unwrap()).unwrap();
            File::create_new(directory.path().join(name)).unwrap();
        }
        let found = expand(&[directory.path().to_string_lossy().into_owned()]);
        match (found, pattern) {
            (Ok(inputs), None) => assert_eq!(inputs.len(), 2),
            (Err(error), Some(pattern)) => {
                let error = error.to_string();
                let other =
                    names.iter().find(|name| name.contains("README") || name.contains("md"));
                let told = error.contains(other.unwrap()) && error.ends_with(pattern);
                assert!(told, "{error}");
            }
            (found, _) => panic!("{names:?}: {found:?}"),
        }
    }
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
        inputs
            .iter()
            .map(|i| i.name().file_name().unwrap().to_string_lossy().into_owned())
            .collect()
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
