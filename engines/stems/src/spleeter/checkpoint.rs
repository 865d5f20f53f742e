//! A reader of TensorFlow's checkpoints: an index of tensors, and a file of their numbers.
//!
//! The index (`model.index`) is a `LevelDB` table, whose entries map a tensor's name to its type,
//! shape, position, size and checksum (`BundleEntryProto`). The data (`model.data-00000-of-00001`)
//! are the numbers, little-endian, one tensor after another. Neither contains code. Every size is
//! compared with the bytes that exist before anything is allocated.

use std::collections::BTreeMap;

/// Largest index, in bytes. That of two U-Nets has 5,244.
const MAX_INDEX_BYTES: usize = 1 << 20;

/// Most entries in an index. Two U-Nets have 156 tensors.
const MAX_ENTRIES: usize = 10_000;

/// Most dimensions of a tensor. A convolution's kernel has four.
const MAX_DIMENSIONS: usize = 8;

/// The last bytes of a `LevelDB` table: two handles, each of two numbers, padded; and a magic number.
const FOOTER_BYTES: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// After each block: the kind of its compression, and a checksum.
const TRAILER_BYTES: usize = 5;

/// TensorFlow's number for 32-bit floats.
const FLOAT: u64 = 1;

/// Why a checkpoint cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("the index has {0} bytes, and at most {MAX_INDEX_BYTES} are read")]
    IndexSize(usize),
    #[error("the index is not a LevelDB table")]
    NotTable,
    #[error("a block of the index is compressed, which is not supported")]
    Compressed,
    #[error("the index is damaged: {0}")]
    Index(&'static str),
    #[error("there is no tensor {0:?}")]
    NoTensor(String),
    #[error("the tensor {name:?} {fault}")]
    Tensor { name: String, fault: TensorFault },
}

/// What is wrong with a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorFault {
    #[error("does not consist of 32-bit floats")]
    Kind,
    #[error("is in another data file")]
    Shard,
    #[error("lies outside the data file")]
    Outside,
    #[error("has {bytes} bytes, which its shape {shape:?} does not need")]
    Size { bytes: u64, shape: Vec<u64> },
    #[error("has the shape {found:?} instead of {expected:?}")]
    Shape { found: Vec<u64>, expected: Vec<u64> },
    #[error("does not match its checksum")]
    Checksum,
}

/// The tensors of a checkpoint.
pub struct Checkpoint<'a> {
    entries: BTreeMap<String, TensorEntry>,
    data: &'a [u8],
}

/// A tensor's entry in the index.
#[derive(Debug, Default)]
struct TensorEntry {
    kind: u64,
    shape: Vec<u64>,
    shard: u64,
    offset: u64,
    size: u64,
    checksum: u32,
}

impl<'a> Checkpoint<'a> {
    /// Reads the index. Tensors are checked when they are read.
    pub fn open(index: &[u8], data: &'a [u8]) -> Result<Self, CheckpointError> {
        if index.len() > MAX_INDEX_BYTES {
            return Err(CheckpointError::IndexSize(index.len()));
        }
        let footer = index.last_chunk::<FOOTER_BYTES>();
        let footer = footer.ok_or(CheckpointError::NotTable)?;
        let magic = footer.last_chunk::<8>();
        if magic.map(|bytes| u64::from_le_bytes(*bytes)) != Some(MAGIC) {
            return Err(CheckpointError::NotTable);
        }
        let mut handles = ByteReader(footer);
        // The first handle is that of a block about blocks, which nothing here needs.
        BlockHandle::read(&mut handles)?;
        let root = block(index, BlockHandle::read(&mut handles)?)?;
        let mut entries = BTreeMap::new();
        for (_, handle) in block_entries(root)? {
            let leaf = block(index, BlockHandle::read(&mut ByteReader(handle))?)?;
            for (key, value) in block_entries(leaf)? {
                // The entry without a name describes the whole file.
                if key.is_empty() {
                    continue;
                }
                let name = String::from_utf8(key)
                    .map_err(|_| CheckpointError::Index("a name is not text"))?;
                entries.insert(name, TensorEntry::read(value)?);
                if entries.len() > MAX_ENTRIES {
                    return Err(CheckpointError::Index("it has too many entries"));
                }
            }
        }
        Ok(Self { entries, data })
    }

    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The numbers of a tensor, whose shape must be `expected`.
    pub fn tensor(&self, name: &str, expected: &[u64]) -> Result<Vec<f32>, CheckpointError> {
        let entry = self.entries.get(name);
        let entry = entry.ok_or_else(|| CheckpointError::NoTensor(name.to_owned()))?;
        let numbers = entry.numbers(self.data, expected);
        numbers.map_err(|fault| CheckpointError::Tensor {
            name: name.to_owned(),
            fault,
        })
    }
}

impl TensorEntry {
    fn read(message: &[u8]) -> Result<Self, CheckpointError> {
        let mut entry = Self::default();
        for field in MessageFields(ByteReader(message)) {
            match field? {
                (1, FieldValue::Number(kind)) => entry.kind = kind,
                (2, FieldValue::Bytes(shape)) => entry.shape = read_shape(shape)?,
                (3, FieldValue::Number(shard)) => entry.shard = shard,
                (4, FieldValue::Number(offset)) => entry.offset = offset,
                (5, FieldValue::Number(size)) => entry.size = size,
                (6, FieldValue::Fixed(checksum)) => entry.checksum = checksum,
                _ => {}
            }
        }
        Ok(entry)
    }

    fn numbers(&self, data: &[u8], expected: &[u64]) -> Result<Vec<f32>, TensorFault> {
        if self.kind != FLOAT {
            return Err(TensorFault::Kind);
        }
        if self.shard != 0 {
            return Err(TensorFault::Shard);
        }
        if self.shape != expected {
            return Err(TensorFault::Shape {
                found: self.shape.clone(),
                expected: expected.to_vec(),
            });
        }
        let mut sizes = self.shape.iter();
        let needed = sizes.try_fold(4u64, |bytes, size| bytes.checked_mul(*size));
        if needed != Some(self.size) {
            return Err(TensorFault::Size {
                bytes: self.size,
                shape: self.shape.clone(),
            });
        }
        let bytes = self
            .offset
            .checked_add(self.size)
            .and_then(|end| {
                data.get(usize::try_from(self.offset).ok()?..usize::try_from(end).ok()?)
            })
            .ok_or(TensorFault::Outside)?;
        if masked(crc32c(bytes)) != self.checksum {
            return Err(TensorFault::Checksum);
        }
        let numbers = bytes.as_chunks().0.iter();
        Ok(numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

/// The sizes of a `TensorShapeProto`.
fn read_shape(message: &[u8]) -> Result<Vec<u64>, CheckpointError> {
    let mut shape = Vec::new();
    for field in MessageFields(ByteReader(message)) {
        let (2, FieldValue::Bytes(dimension)) = field? else {
            continue;
        };
        let mut size = 0;
        for field in MessageFields(ByteReader(dimension)) {
            if let (1, FieldValue::Number(number)) = field? {
                size = number;
            }
        }
        if shape.len() == MAX_DIMENSIONS {
            return Err(CheckpointError::Index("a tensor has too many dimensions"));
        }
        shape.push(size);
    }
    Ok(shape)
}

/// Where a block of the index lies.
#[derive(Clone, Copy)]
struct BlockHandle {
    offset: usize,
    size: usize,
}

impl BlockHandle {
    fn read(bytes: &mut ByteReader<'_>) -> Result<Self, CheckpointError> {
        Ok(Self {
            offset: bytes.length()?,
            size: bytes.length()?,
        })
    }
}

/// The content of a block, whose checksum must match.
fn block(
    index: &[u8],
    BlockHandle { offset, size }: BlockHandle,
) -> Result<&[u8], CheckpointError> {
    let end = offset
        .checked_add(size)
        .and_then(|end| end.checked_add(TRAILER_BYTES));
    let whole = end.and_then(|end| index.get(offset..end));
    let whole = whole.ok_or(CheckpointError::Index("a block lies outside of it"))?;
    let (content, trailer) = whole.split_at(size);
    let [compression, checksum @ ..] = trailer else {
        return Err(CheckpointError::Index("a block has no trailer"));
    };
    let checksum = checksum
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes));
    if checksum != Some(masked(crc32c(&whole[..=size]))) {
        return Err(CheckpointError::Index(
            "a block does not match its checksum",
        ));
    }
    if *compression != 0 {
        return Err(CheckpointError::Compressed);
    }
    Ok(content)
}

/// A key of a block, and its value.
type BlockEntry<'a> = (Vec<u8>, &'a [u8]);

/// Keys and values of a block. A key repeats the beginning of the one before it; the end of the
/// block lists the keys that do not, for searching.
fn block_entries(block: &[u8]) -> Result<Vec<BlockEntry<'_>>, CheckpointError> {
    let short = CheckpointError::Index("a block ends early");
    let (rest, restarts) = block.split_last_chunk::<4>().ok_or(short.clone())?;
    let restarts = usize::try_from(u32::from_le_bytes(*restarts)).unwrap_or(usize::MAX);
    let end = restarts.checked_mul(4);
    let end = end.and_then(|restarts| rest.len().checked_sub(restarts));
    let mut bytes = ByteReader(&rest[..end.ok_or(short)?]);
    let mut entries: Vec<BlockEntry<'_>> = Vec::new();
    while !bytes.0.is_empty() {
        let (repeated, added, value) = (bytes.length()?, bytes.length()?, bytes.length()?);
        let previous = entries.last().map_or(&[][..], |(key, _)| key.as_slice());
        let repeated = previous.get(..repeated);
        let mut key = repeated
            .ok_or(CheckpointError::Index("a name repeats more than there is"))?
            .to_vec();
        key.extend_from_slice(bytes.take(added)?);
        entries.push((key, bytes.take(value)?));
        if entries.len() > MAX_ENTRIES {
            return Err(CheckpointError::Index("it has too many entries"));
        }
    }
    Ok(entries)
}

/// The bytes that are still to be read.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], CheckpointError> {
        let split = self.0.split_at_checked(count);
        let (taken, rest) = split.ok_or(CheckpointError::Index("an entry ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number in groups of seven bits, the lowest first.
    fn number(&mut self) -> Result<u64, CheckpointError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.0 else {
                return Err(CheckpointError::Index("a number ends early"));
            };
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(CheckpointError::Index("a number has more than 64 bits"))
    }

    fn length(&mut self) -> Result<usize, CheckpointError> {
        usize::try_from(self.number()?).map_err(|_| CheckpointError::Index("a length is too large"))
    }
}

/// The value of a protocol-buffer field.
enum FieldValue<'a> {
    Number(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
}

/// Numbers and values of a message's fields.
struct MessageFields<'a>(ByteReader<'a>);

impl<'a> MessageFields<'a> {
    fn field(&mut self) -> Result<(u64, FieldValue<'a>), CheckpointError> {
        let tag = self.0.number()?;
        let value = match tag & 7 {
            0 => FieldValue::Number(self.0.number()?),
            2 => {
                let length = self.0.length()?;
                FieldValue::Bytes(self.0.take(length)?)
            }
            5 => {
                let bytes = self.0.take(4)?.first_chunk();
                FieldValue::Fixed(bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
            }
            _ => return Err(CheckpointError::Index("a field has an unknown form")),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for MessageFields<'a> {
    type Item = Result<(u64, FieldValue<'a>), CheckpointError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = ByteReader(&[]);
        }
        Some(field)
    }
}

/// CRC-32C (Castagnoli), as iSCSI defines it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        CRC_TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8
    })
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i: u32 = 0;
    while i < 256 {
        let mut sum = i;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[i as usize] = sum;
        i += 1;
    }
    table
};

/// The form in which these files store a checksum, so that a checksum over checksums works.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push((value & 0x7f) as u8);
        bytes
    }

    fn bytes_field(tag: u8, bytes: &[u8]) -> Vec<u8> {
        [&[tag << 3 | 2][..], &number(bytes.len() as u64), bytes].concat()
    }

    fn add_block(index: &mut Vec<u8>, entries: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut content = Vec::new();
        let mut previous = "";
        for (key, value) in entries {
            let same = previous.bytes().zip(key.bytes());
            let same = same.take_while(|(a, b)| a == b).count();
            content.extend(number(same as u64));
            content.extend(number((key.len() - same) as u64));
            content.extend(number(value.len() as u64));
            content.extend(&key.as_bytes()[same..]);
            content.extend(value);
            previous = key;
        }
        content.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        let handle = [number(index.len() as u64), number(content.len() as u64)].concat();
        content.push(0);
        let checksum = masked(crc32c(&content));
        index.extend(content);
        index.extend(checksum.to_le_bytes());
        handle
    }

    /// A checkpoint, as TensorFlow writes it: the index and the data.
    pub(crate) fn write(tensors: &[(String, Vec<u64>, Vec<f32>)]) -> (Vec<u8>, Vec<u8>) {
        let mut data = Vec::new();
        let mut entries = vec![(String::new(), vec![8, 1])];
        for (name, shape, numbers) in tensors {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            let shape = shape.iter();
            let shape = shape.map(|size| bytes_field(2, &[vec![8], number(*size)].concat()));
            let mut value = vec![8, 1];
            value.extend(bytes_field(2, &shape.collect::<Vec<_>>().concat()));
            value.push(4 << 3);
            value.extend(number(data.len() as u64));
            value.push(5 << 3);
            value.extend(number(bytes.len() as u64));
            value.push(6 << 3 | 5);
            value.extend(masked(crc32c(&bytes)).to_le_bytes());
            entries.push((name.clone(), value));
            data.extend(bytes);
        }
        let mut index = Vec::new();
        let leaf = add_block(&mut index, &entries);
        let meta = add_block(&mut index, &[]);
        let root = add_block(&mut index, &[("z".to_owned(), leaf)]);
        let mut footer = [meta, root].concat();
        footer.resize(FOOTER_BYTES - 8, 0);
        index.extend(footer);
        index.extend(MAGIC.to_le_bytes());
        (index, data)
    }

    fn sample() -> (Vec<u8>, Vec<u8>) {
        let tensor = |name: &str, shape: &[u64], numbers: &[f32]| {
            (name.to_owned(), shape.to_vec(), numbers.to_vec())
        };
        write(&[
            tensor("conv/bias", &[3], &[1.0, -2.0, 0.5]),
            tensor("conv/kernel", &[2, 1], &[7.0, 8.0]),
        ])
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        // The last example in section B.4 of RFC 3720.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn reads_tensors_and_names_what_is_wrong() {
        let (index, data) = sample();
        let checkpoint = Checkpoint::open(&index, &data).unwrap();
        assert_eq!(
            checkpoint.names().collect::<Vec<_>>(),
            ["conv/bias", "conv/kernel"]
        );
        assert_eq!(
            checkpoint.tensor("conv/bias", &[3]).unwrap(),
            [1.0, -2.0, 0.5]
        );
        assert_eq!(
            checkpoint.tensor("conv/kernel", &[2, 1]).unwrap(),
            [7.0, 8.0]
        );
        let reason = |name, shape: &[u64]| checkpoint.tensor(name, shape).unwrap_err().to_string();
        assert_eq!(reason("none", &[]), "there is no tensor \"none\"");
        assert_eq!(
            reason("conv/bias", &[4]),
            "the tensor \"conv/bias\" has the shape [3] instead of [4]"
        );
        let mut changed = data.clone();
        changed[13] ^= 1;
        let changed = Checkpoint::open(&index, &changed).unwrap();
        assert!(changed.tensor("conv/bias", &[3]).is_ok());
        let fault = changed.tensor("conv/kernel", &[2, 1]).unwrap_err();
        assert!(
            fault.to_string().ends_with("does not match its checksum"),
            "{fault}"
        );
        let short = Checkpoint::open(&index, &data[..19]).unwrap();
        let fault = short.tensor("conv/kernel", &[2, 1]).unwrap_err();
        assert!(
            fault.to_string().ends_with("lies outside the data file"),
            "{fault}"
        );
        let fault = Checkpoint::open(b"not a table", &data).err();
        assert_eq!(fault, Some(CheckpointError::NotTable));
    }

    /// Every tensor of a checkpoint, or the first error.
    fn read_all(index: &[u8], data: &[u8]) -> Result<Vec<Vec<f32>>, CheckpointError> {
        let checkpoint = Checkpoint::open(index, data)?;
        [("conv/bias", &[3][..]), ("conv/kernel", &[2, 1])]
            .into_iter()
            .map(|(name, shape)| checkpoint.tensor(name, shape))
            .collect()
    }

    proptest! {
        #[test]
        fn one_changed_bit_is_noticed(position in 0usize..10_000, bit in 0u8..8) {
            let (mut index, mut data) = sample();
            let expected = read_all(&index, &data).unwrap();
            // Neither the block about blocks nor the padding of the footer is used.
            let position = position % (index.len() + data.len());
            match position.checked_sub(index.len()) {
                None => index[position] ^= 1 << bit,
                Some(position) => data[position] ^= 1 << bit,
            }
            if let Ok(tensors) = read_all(&index, &data) {
                prop_assert!(position < index.len());
                prop_assert_eq!(tensors, expected);
            }
        }

        #[test]
        fn damaged_blocks_with_right_checksums_give_errors(
            changes in prop::collection::vec((0usize..200, any::<u8>()), 1..6),
            cut in 0usize..200,
        ) {
            let (index, _) = sample();
            let handle = &mut ByteReader(&index[index.len() - FOOTER_BYTES..]);
            BlockHandle::read(handle).unwrap();
            let mut content = index[..index.len().min(cut)].to_vec();
            for (position, value) in changes {
                if let Some(byte) = content.get_mut(position) {
                    *byte = value;
                }
            }
            // Neither of these may panic; what they return does not matter.
            for (_, value) in block_entries(&content).unwrap_or_default() {
                let _ = TensorEntry::read(value).map(|entry| entry.numbers(&content, &entry.shape));
            }
            let _ = TensorEntry::read(&content).map(|entry| entry.numbers(&content, &entry.shape));
        }

        #[test]
        fn any_bytes_give_an_error(mut index in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Checkpoint::open(&index, &[]).is_err());
            index.extend(MAGIC.to_le_bytes());
            let _ = Checkpoint::open(&index, &[]);
        }
    }
}
