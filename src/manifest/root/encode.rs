//! The stored form of a root: writing.

use super::{
    ARRANGED, ARRANGEMENT, CHUNKS, HISTORY, History, LEDGER, MAGIC, REQUIRED, Root, SCHEMA, TABLE,
    WRITE_VOLUME, WriteVolume,
};
use crate::bytes::Writer;
use crate::encoding::Profile;
use crate::manifest::codec::{seal, write_envelope};
use crate::manifest::{Ledger, arrangement};
use crate::model::Column;
use crate::model::stored::write_type;

impl Root {
    /// The checksum by which the stored form ends, which tells it from others. A checksum of all of
    /// it, with its own at the end, is the same for all.
    #[cfg(feature = "cluster")]
    pub(crate) fn checksum(&self) -> u32 {
        self.encode().last_chunk().map_or(0, |crc| u32::from_le_bytes(*crc))
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        // A writer that does not know arrangements would put rows into wrong partitions.
        let may_read = if self.arrangement.is_none() { 0 } else { ARRANGED };
        write_envelope(MAGIC, may_read, &mut out);
        out.u64(self.generation);
        let mut sections = vec![
            (TABLE, self.encode_table()),
            (SCHEMA, self.encode_schema()),
            (CHUNKS, self.encode_chunks()),
        ];
        sections.extend(self.encode_required().map(|required| (REQUIRED, required)));
        if !self.arrangement.is_none() {
            sections.push((ARRANGEMENT, arrangement::encode(&self.arrangement)));
        }
        if self.history != History::default() {
            let mut out = Writer::new();
            out.u64(self.history.committed);
            out.u64(self.history.keep);
            sections.push((HISTORY, out));
        }
        if self.ledger != Ledger::default() {
            sections.push((LEDGER, self.ledger.encode()));
        }
        if self.write_volume != WriteVolume::default() {
            let mut out = Writer::new();
            out.u64(self.write_volume.loaded);
            out.u64(self.write_volume.written);
            sections.push((WRITE_VOLUME, out));
        }
        out.count(sections.len());
        for (kind, payload) in sections {
            out.u32(kind);
            out.blob(payload.as_slice());
        }
        seal(out)
    }

    fn encode_table(&self) -> Writer {
        let mut out = Writer::new();
        out.put(&self.table);
        out.u32(self.options.block_rows);
        out.u32(self.options.segment_rows);
        out.u8(profile_number(self.options.profile));
        out.u64(self.rows);
        out
    }

    fn encode_schema(&self) -> Writer {
        let mut out = Writer::new();
        out.u32(self.schema.next_id());
        out.count(self.schema.columns().len());
        for column in self.schema.columns() {
            out.u32(column.id.0);
            out.blob(column.name.as_bytes());
            write_type(&column.data_type, &mut out);
        }
        out
    }

    fn encode_chunks(&self) -> Writer {
        let mut out = Writer::new();
        out.count(self.chunks.len());
        for chunk in &self.chunks {
            out.put(&chunk.id);
            out.u64(chunk.length);
            out.u32(chunk.crc);
            out.u32(chunk.segments);
            out.u64(chunk.rows);
            out.blob(chunk.first_partition.as_bytes());
            out.blob(chunk.last_partition.as_bytes());
        }
        out
    }

    fn encode_required(&self) -> Option<Writer> {
        let columns: Vec<&Column> =
            self.schema.columns().iter().filter(|column| !column.nullable).collect();
        let mut out = Writer::new();
        out.count(columns.len());
        columns.iter().for_each(|column| out.u32(column.id.0));
        (!columns.is_empty()).then_some(out)
    }
}

fn profile_number(profile: Profile) -> u8 {
    match profile {
        Profile::Fast => 0,
        Profile::Balanced => 1,
        Profile::Small => 2,
    }
}
