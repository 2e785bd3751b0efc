//! What some writers of Parquet get wrong in the footer, put right before anything reads it.
//!
//! Where this stands on the road of a row: behind the footer of a Parquet file, in an ingest and in
//! a query over files, and before its columns. The reader (59) believes the footer.

use std::sync::Arc;

use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};

/// The metadata of a file with what its row groups say:
///
/// - The rows of the file are those of its row groups. parquet-rs 0.3 wrote none, and the reader
///   makes batches of no more rows than the file has.
/// - A dictionary at the first byte is none: there stands the file's mark. Some writers give this
///   offset to columns without a dictionary.
pub(crate) fn sound(metadata: Arc<ParquetMetaData>) -> ParquetResult<Arc<ParquetMetaData>> {
    let groups = metadata.row_groups();
    let rows = groups.iter().fold(0_i64, |rows, group| rows.saturating_add(group.num_rows()));
    let misplaced = |group: &RowGroupMetaData| group.columns().iter().any(has_misplaced);
    if rows == metadata.file_metadata().num_rows() && !groups.iter().any(misplaced) {
        return Ok(metadata);
    }
    let without = |column: &ColumnChunkMetaData| match has_misplaced(column) {
        true => column.clone().into_builder().set_dictionary_page_offset(None).build(),
        false => Ok(column.clone()),
    };
    let groups = groups.iter().map(|group| {
        let columns = group.columns().iter().map(without).collect::<ParquetResult<_>>()?;
        group.clone().into_builder().set_column_metadata(columns).build()
    });
    let of_file = metadata.file_metadata();
    let of_file = FileMetaData::new(
        of_file.version(),
        rows,
        of_file.created_by().map(str::to_owned),
        of_file.key_value_metadata().cloned(),
        of_file.schema_descr_ptr(),
        of_file.column_orders().cloned(),
    );
    let sound = ParquetMetaDataBuilder::new(of_file)
        .set_row_groups(groups.collect::<ParquetResult<_>>()?)
        .set_column_index(metadata.column_index().cloned())
        .set_offset_index(metadata.offset_index().cloned());
    Ok(Arc::new(sound.build()))
}

fn has_misplaced(column: &ColumnChunkMetaData) -> bool {
    column.dictionary_page_offset() == Some(0)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

    use super::*;

    #[test]
    fn rows_and_dictionaries_are_what_the_row_groups_say() {
        let column = Arc::new(Int64Array::from_iter_values(0..6)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let properties = parquet::file::properties::WriterProperties::builder();
        let properties = properties.set_dictionary_enabled(false).build();
        let to = file.reopen().unwrap();
        let mut writer = ArrowWriter::try_new(to, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let right = Arc::new(writer.close().unwrap());
        assert!(Arc::ptr_eq(&sound(Arc::clone(&right)).unwrap(), &right));

        let of_file = right.file_metadata();
        let of_file = FileMetaData::new(1, 0, None, None, of_file.schema_descr_ptr(), None);
        let column = right.row_group(0).column(0).clone().into_builder();
        let column = column.set_dictionary_page_offset(Some(0)).build().unwrap();
        let group = right.row_group(0).clone().into_builder().set_column_metadata(vec![column]);
        let wrong = ParquetMetaData::new(of_file, vec![group.build().unwrap()]);

        let metadata = sound(Arc::new(wrong)).unwrap();
        let read = ArrowReaderMetadata::try_new(metadata, Default::default()).unwrap();
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.reopen().unwrap(), read);
        let rows: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
        assert_eq!(rows, [batch]);
    }
}
