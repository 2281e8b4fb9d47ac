//! Writes a table of rows as a Parquet file: columns of four types, nullable, compressed with Snappy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use rampmeter_scenario::{Kind, Value};

use crate::StudyError;

/// The number of rows that are buffered and written together.
const GROUP: usize = 1 << 17;

/// The buffered values of one column; `present` is 1 for each row that has a value.
#[derive(Default)]
struct Column {
    present: Vec<i16>,
    texts: Vec<ByteArray>,
    wholes: Vec<i64>,
    numbers: Vec<f64>,
    truths: Vec<bool>,
}

impl Column {
    fn push(&mut self, value: Value) {
        self.present.push(i16::from(value != Value::Null));
        match value {
            Value::Text(text) => self.texts.push(text.into_bytes().into()),
            Value::Whole(whole) => self.wholes.push(whole),
            Value::Number(number) => self.numbers.push(number),
            Value::Truth(truth) => self.truths.push(truth),
            Value::Null => {}
        }
    }
}

pub(crate) struct Table {
    path: PathBuf,
    temporary: PathBuf,
    writer: SerializedFileWriter<File>,
    kinds: Vec<Kind>,
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// Creates a table that appears at `path` when it is closed.
    pub(crate) fn create(path: &Path, columns: &[(String, Kind)]) -> Result<Self, StudyError> {
        let refuse = |error: ParquetError| StudyError::file(path, "written", &error);
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let fields = columns.iter().map(|(name, kind)| field(name, *kind)).collect::<Result<Vec<_>, _>>();
        let schema = Type::group_type_builder("table").with_fields(fields.map_err(refuse)?).build().map_err(refuse)?;
        let file = File::create(&temporary).map_err(|error| StudyError::file(path, "written", &error))?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties));
        let writer = writer.inspect_err(|_| drop(std::fs::remove_file(&temporary))).map_err(refuse)?;
        let kinds: Vec<Kind> = columns.iter().map(|(_, kind)| *kind).collect();
        let columns = kinds.iter().map(|_| Column::default()).collect();
        Ok(Self { path: path.to_owned(), temporary, writer, kinds, columns, rows: 0 })
    }

    /// Adds a row with one value for every column.
    pub(crate) fn row(&mut self, values: impl Iterator<Item = Value>) -> Result<(), StudyError> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
        self.rows += 1;
        if self.rows == GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes the remaining rows and moves the table to its path.
    pub(crate) fn close(mut self) -> Result<(), StudyError> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.writer.finish().map_err(|error| StudyError::file(&self.path, "written", &error))?;
        std::fs::rename(&self.temporary, &self.path).map_err(|error| StudyError::file(&self.path, "written", &error))
    }

    fn flush(&mut self) -> Result<(), StudyError> {
        self.write_group().map_err(|error| StudyError::file(&self.path, "written", &error))
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (kind, column) in self.kinds.iter().zip(&mut self.columns) {
            let Column { present, texts, wholes, numbers, truths } = std::mem::take(column);
            let Some(mut writer) = group.next_column()? else { break };
            let present = Some(present.as_slice());
            match kind {
                Kind::Text => writer.typed::<ByteArrayType>().write_batch(&texts, present, None)?,
                Kind::Whole => writer.typed::<Int64Type>().write_batch(&wholes, present, None)?,
                Kind::Number => writer.typed::<DoubleType>().write_batch(&numbers, present, None)?,
                Kind::Truth => writer.typed::<BoolType>().write_batch(&truths, present, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

/// A table that was not closed, for example because the disk is full, leaves no file.
impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary); // a closed one has its name already
    }
}

fn field(name: &str, kind: Kind) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => (Physical::INT64, None),
        Kind::Number => (Physical::DOUBLE, None),
        Kind::Truth => (Physical::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical);
    builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
}
