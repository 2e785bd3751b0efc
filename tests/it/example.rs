//! The worked example of `format-spec/example.md`: its bytes are what the library writes, and are
//! read as the page says.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, StringViewArray};
use stylobate::internal::encoding::Options;
use stylobate::internal::segment::{InputColumn, SegmentInput, encode};
use stylobate::{ColumnId, DataType, Profile};

use crate::columns::{assert_same, bytes_of, read_all};
use crate::project;

/// The bytes of all fenced blocks marked `hex`: an offset, bytes, and after a bar their meaning.
fn bytes_of_page(page: &str) -> Vec<u8> {
    let (mut bytes, mut inside) = (Vec::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```hex";
            continue;
        }
        let Some((offset, rest)) = line.split_once(' ').filter(|_| inside) else { continue };
        assert_eq!(
            usize::from_str_radix(offset, 16).unwrap(),
            bytes.len(),
            "offset of line: {line}"
        );
        let listed = rest.split('|').next().unwrap_or_default().split_whitespace();
        bytes.extend(listed.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

fn input() -> SegmentInput {
    let trees: ArrayRef = Arc::new(StringViewArray::from(vec![Some("ash"), None, Some("oak")]));
    let heights: ArrayRef = Arc::new(Int32Array::from(vec![1200, 900, 2100]));
    let columns = vec![
        InputColumn { id: ColumnId(0), data_type: DataType::Utf8, arrays: vec![trees] },
        InputColumn { id: ColumnId(2), data_type: DataType::Int32, arrays: vec![heights] },
    ];
    SegmentInput { rows: 3, block_rows: 65_536, columns }
}

#[test]
fn the_worked_example_is_what_the_library_reads_and_writes() {
    let input = input();
    let written = bytes_of(&encode(&input, &Options::new(Profile::Balanced)).unwrap());
    if std::env::var_os("STY_WRITE_GOLDEN").is_some() {
        for (i, line) in written.chunks(16).enumerate() {
            println!(
                "{:04x} {}",
                i * 16,
                line.iter().map(|b| format!(" {b:02x}")).collect::<String>()
            );
        }
    }
    let page = project().join("format-spec/example.md");
    let listed = bytes_of_page(&std::fs::read_to_string(page).unwrap());
    let right: Vec<ArrayRef> = input.columns.iter().map(|c| c.arrays[0].clone()).collect();
    assert_same(&read_all(&listed, &input).unwrap(), &right, "the example");
    let differs = written.iter().zip(&listed).position(|(a, b)| a != b);
    assert!(
        written == listed,
        "written {} bytes, listed {}, first difference at {differs:?}",
        written.len(),
        listed.len()
    );
}
