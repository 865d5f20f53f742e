//! The weights of both nets, and the file that holds them: `spleeter-2.mg`.
//!
//! The file has a header (magic bytes, version, width, SHA-256 of the rest) and then the numbers of
//! the voice's net and of the accompaniment's, little-endian. Kernels are 16-bit floats, which
//! changes the stems by less than -65 dB; the few other numbers are 32-bit floats. A batch
//! normalisation is stored as what it does to each channel: a factor and an addend.

use sha2::{Digest, Sha256};

use super::checkpoint::{Checkpoint, CheckpointError};
use super::half::{from_half, to_half};

/// Layers that halve time and frequency, and as many that double them.
pub(super) const DEPTH: usize = 6;

/// Channels of the input: left and right.
pub(super) const INPUTS: usize = 2;

/// Height and width of the kernels, except for the last one.
pub(super) const KERNEL: usize = 5;

/// Height and width of the last layer's kernel.
pub(super) const LAST_KERNEL: usize = 4;

/// Channels after the first layer of the published nets.
const PUBLISHED_WIDTH: usize = 16;

/// The epsilon of the published nets' batch normalisations.
const EPSILON: f32 = 1e-3;

const MAGIC: [u8; 8] = *b"mg-unet\n";
const VERSION: u32 = 1;
const DIGEST_BYTES: usize = 32;
/// Magic bytes, version, width, digest.
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 + DIGEST_BYTES;

/// Why a file of weights cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    #[error("it is not a file of weights")]
    NotWeights,
    #[error("its version is {0}, and this program reads version {VERSION}")]
    Version(u32),
    #[error("its nets are {0} channels wide, and this program reads 1 to {PUBLISHED_WIDTH}")]
    Width(u32),
    #[error("it has {found} bytes instead of {expected}")]
    Size { found: usize, expected: usize },
    #[error("it does not match its own digest")]
    Digest,
    #[error("it contains a number that is not finite")]
    NotFinite,
}

/// A layer's kernel and biases.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KernelWeights {
    /// Row by row, column by column; within that as the layer needs it.
    pub(super) kernel: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// What a batch normalisation does to each channel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChannelScale {
    pub(super) factor: Vec<f32>,
    pub(super) addend: Vec<f32>,
}

/// The weights of one net.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UNetWeights {
    /// Kernels by input, then output.
    pub(super) down: Vec<KernelWeights>,
    /// One for each of `down` except for the last.
    pub(super) down_scales: Vec<ChannelScale>,
    /// Kernels by output, then input.
    pub(super) up: Vec<KernelWeights>,
    pub(super) up_scales: Vec<ChannelScale>,
    /// Kernel by output: left, right.
    pub(super) last: KernelWeights,
}

/// The weights of the voice's net and of the accompaniment's.
#[derive(Debug, Clone, PartialEq)]
pub struct NetWeights {
    width: usize,
    pub(super) voice: UNetWeights,
    pub(super) accompaniment: UNetWeights,
}

/// Inputs and outputs of the layers that halve, of a net of this width.
fn down_channels(width: usize) -> [(usize, usize); DEPTH] {
    std::array::from_fn(|i| match i {
        0 => (INPUTS, width),
        _ => (width << (i - 1), width << i),
    })
}

/// Inputs and outputs of the layers that double. From the second one on, their inputs are also
/// those of the layer that halved to the same size.
fn up_channels(width: usize) -> [(usize, usize); DEPTH] {
    std::array::from_fn(|i| match i {
        0 => (width << 5, width << 4),
        5 => (2 * width, 1),
        _ => (width << (6 - i), width << (4 - i)),
    })
}

/// Hands out the parts of a net in their one order.
trait PartSource {
    type Error;

    /// A layer; `shape` is height, width, inputs, outputs.
    fn convolution(&mut self, shape: [usize; 4]) -> Result<KernelWeights, Self::Error>;
    /// A layer that doubles; `shape` is height, width, outputs, inputs.
    fn transposed(&mut self, shape: [usize; 4]) -> Result<KernelWeights, Self::Error>;
    fn scale(&mut self, channels: usize) -> Result<ChannelScale, Self::Error>;
    /// Passes over a normalisation that the nets have and never use.
    fn skip_scale(&mut self) {}
}

impl UNetWeights {
    fn from_parts<S: PartSource>(width: usize, parts: &mut S) -> Result<Self, S::Error> {
        let (mut down, mut down_scales) = (Vec::new(), Vec::new());
        for (i, (inputs, outputs)) in down_channels(width).into_iter().enumerate() {
            down.push(parts.convolution([KERNEL, KERNEL, inputs, outputs])?);
            if i + 1 < DEPTH {
                down_scales.push(parts.scale(outputs)?);
            }
        }
        parts.skip_scale();
        let (mut up, mut up_scales) = (Vec::new(), Vec::new());
        for (inputs, outputs) in up_channels(width) {
            up.push(parts.transposed([KERNEL, KERNEL, outputs, inputs])?);
            up_scales.push(parts.scale(outputs)?);
        }
        let last = parts.convolution([LAST_KERNEL, LAST_KERNEL, 1, INPUTS])?;
        Ok(Self {
            down,
            down_scales,
            up,
            up_scales,
            last,
        })
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        for (i, layer) in self.down.iter().enumerate() {
            layer.write(bytes);
            if let Some(scale) = self.down_scales.get(i) {
                scale.write(bytes);
            }
        }
        for (layer, scale) in self.up.iter().zip(&self.up_scales) {
            layer.write(bytes);
            scale.write(bytes);
        }
        self.last.write(bytes);
    }
}

impl KernelWeights {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.kernel.iter().flat_map(|x| to_half(*x).to_le_bytes()));
        bytes.extend(self.bias.iter().flat_map(|x| x.to_le_bytes()));
    }
}

impl ChannelScale {
    fn write(&self, bytes: &mut Vec<u8>) {
        let numbers = self.factor.iter().chain(&self.addend);
        bytes.extend(numbers.flat_map(|x| x.to_le_bytes()));
    }
}

/// The published checkpoint, which numbers its layers through both nets.
struct CheckpointParts<'a> {
    checkpoint: &'a Checkpoint<'a>,
    convolutions: LayerNames,
    transposed: LayerNames,
    scales: LayerNames,
}

/// Names of layers of one kind. The first has no number.
struct LayerNames {
    kind: &'static str,
    used: usize,
}

impl LayerNames {
    const fn new(kind: &'static str) -> Self {
        Self { kind, used: 0 }
    }

    fn next(&mut self) -> String {
        self.used += 1;
        match self.used {
            1 => self.kind.to_owned(),
            used => format!("{}_{}", self.kind, used - 1),
        }
    }
}

impl CheckpointParts<'_> {
    fn kernel(
        &self,
        layer: &str,
        shape: [usize; 4],
        outputs: usize,
    ) -> Result<KernelWeights, CheckpointError> {
        let shape = shape.map(|size| size as u64);
        Ok(KernelWeights {
            kernel: self.checkpoint.tensor(&format!("{layer}/kernel"), &shape)?,
            bias: self.vector(layer, "bias", outputs)?,
        })
    }

    fn vector(&self, layer: &str, part: &str, size: usize) -> Result<Vec<f32>, CheckpointError> {
        self.checkpoint
            .tensor(&format!("{layer}/{part}"), &[size as u64])
    }
}

impl PartSource for CheckpointParts<'_> {
    type Error = CheckpointError;

    fn convolution(&mut self, shape: [usize; 4]) -> Result<KernelWeights, CheckpointError> {
        let layer = self.convolutions.next();
        self.kernel(&layer, shape, shape[3])
    }

    fn transposed(&mut self, shape: [usize; 4]) -> Result<KernelWeights, CheckpointError> {
        let layer = self.transposed.next();
        self.kernel(&layer, shape, shape[2])
    }

    fn scale(&mut self, channels: usize) -> Result<ChannelScale, CheckpointError> {
        let layer = self.scales.next();
        let vector = |part| self.vector(&layer, part, channels);
        let (mean, variance) = (vector("moving_mean")?, vector("moving_variance")?);
        let (gamma, beta) = (vector("gamma")?, vector("beta")?);
        let factor: Vec<f32> = gamma
            .iter()
            .zip(&variance)
            .map(|(gamma, variance)| gamma / (variance + EPSILON).sqrt())
            .collect();
        let addend = beta.iter().zip(&mean).zip(&factor);
        let addend = addend.map(|((beta, mean), factor)| beta - mean * factor);
        Ok(ChannelScale {
            addend: addend.collect(),
            factor,
        })
    }

    fn skip_scale(&mut self) {
        self.scales.next();
    }
}

/// The rest of a file of weights.
struct FileParts<'a>(&'a [u8]);

impl FileParts<'_> {
    fn numbers<const N: usize>(
        &mut self,
        count: usize,
        number: impl Fn([u8; N]) -> f32,
    ) -> Result<Vec<f32>, WeightsError> {
        // INVARIANT: the size of the file was compared with that of its nets.
        let (taken, rest) = self.0.split_at_checked(count * N).unwrap_or_default();
        self.0 = rest;
        let numbers = taken.as_chunks().0.iter().map(|bytes| number(*bytes));
        let numbers: Vec<f32> = numbers.collect();
        if numbers.iter().all(|x| x.is_finite()) {
            Ok(numbers)
        } else {
            Err(WeightsError::NotFinite)
        }
    }

    fn kernel(&mut self, shape: [usize; 4], outputs: usize) -> Result<KernelWeights, WeightsError> {
        Ok(KernelWeights {
            kernel: self.numbers(shape.iter().product(), |bytes| {
                from_half(u16::from_le_bytes(bytes))
            })?,
            bias: self.numbers(outputs, f32::from_le_bytes)?,
        })
    }
}

impl PartSource for FileParts<'_> {
    type Error = WeightsError;

    fn convolution(&mut self, shape: [usize; 4]) -> Result<KernelWeights, WeightsError> {
        self.kernel(shape, shape[3])
    }

    fn transposed(&mut self, shape: [usize; 4]) -> Result<KernelWeights, WeightsError> {
        self.kernel(shape, shape[2])
    }

    fn scale(&mut self, channels: usize) -> Result<ChannelScale, WeightsError> {
        Ok(ChannelScale {
            factor: self.numbers(channels, f32::from_le_bytes)?,
            addend: self.numbers(channels, f32::from_le_bytes)?,
        })
    }
}

/// How many bytes both nets of this width have in a file.
fn file_bytes(width: usize) -> usize {
    let taps = KERNEL * KERNEL;
    let kernels = down_channels(width).into_iter().chain(up_channels(width));
    let (mut halves, mut floats) = (LAST_KERNEL * LAST_KERNEL * INPUTS, INPUTS);
    for (i, (inputs, outputs)) in kernels.enumerate() {
        halves += taps * inputs * outputs;
        // A bias, and the two numbers of a scale.
        floats += if i + 1 == DEPTH { outputs } else { 3 * outputs };
    }
    HEADER_BYTES + 2 * (2 * halves + 4 * floats)
}

impl NetWeights {
    /// The file's name in a folder of models.
    pub const FILE_NAME: &'static str = "spleeter-2.mg";

    /// Takes the published nets out of their checkpoint, and rounds them as the file does.
    pub fn from_checkpoint(checkpoint: &Checkpoint<'_>) -> Result<Self, CheckpointError> {
        Self::from_checkpoint_of_width(checkpoint, PUBLISHED_WIDTH)
    }

    fn from_checkpoint_of_width(
        checkpoint: &Checkpoint<'_>,
        width: usize,
    ) -> Result<Self, CheckpointError> {
        let mut parts = CheckpointParts {
            checkpoint,
            convolutions: LayerNames::new("conv2d"),
            transposed: LayerNames::new("conv2d_transpose"),
            scales: LayerNames::new("batch_normalization"),
        };
        Ok(Self {
            width,
            voice: UNetWeights::from_parts(width, &mut parts)?,
            accompaniment: UNetWeights::from_parts(width, &mut parts)?,
        })
    }

    /// Reads a file of weights.
    pub fn read(file: &[u8]) -> Result<Self, WeightsError> {
        let (header, rest) = file
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(WeightsError::NotWeights)?;
        let (magic, header) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(WeightsError::NotWeights);
        }
        let ([version, width], digest) = two_numbers(header);
        if version != VERSION {
            return Err(WeightsError::Version(version));
        }
        let known = (1..=PUBLISHED_WIDTH).find(|known| u32::try_from(*known) == Ok(width));
        let known = known.ok_or(WeightsError::Width(width))?;
        let expected = file_bytes(known);
        if file.len() != expected {
            return Err(WeightsError::Size {
                found: file.len(),
                expected,
            });
        }
        if Sha256::digest(rest).as_slice() != digest {
            return Err(WeightsError::Digest);
        }
        let mut parts = FileParts(rest);
        Ok(Self {
            width: known,
            voice: UNetWeights::from_parts(known, &mut parts)?,
            accompaniment: UNetWeights::from_parts(known, &mut parts)?,
        })
    }

    /// The file of these weights.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(file_bytes(self.width));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::try_from(self.width).unwrap_or(0).to_le_bytes());
        bytes.extend([0; DIGEST_BYTES]);
        self.voice.write(&mut bytes);
        self.accompaniment.write(&mut bytes);
        let digest = Sha256::digest(&bytes[HEADER_BYTES..]);
        bytes[HEADER_BYTES - DIGEST_BYTES..HEADER_BYTES].copy_from_slice(&digest);
        bytes
    }

    /// Nets of made-up weights, one channel wide, for tests.
    #[must_use]
    #[doc(hidden)]
    pub fn made_up() -> Self {
        let mut parts = MadeUpParts(1);
        let mut net = || match UNetWeights::from_parts(1, &mut parts) {
            Ok(net) => net,
            Err(never) => match never {},
        };
        Self {
            width: 1,
            voice: net(),
            accompaniment: net(),
        }
    }
}

/// The first two numbers of the rest of a header, and what follows them.
fn two_numbers(header: &[u8]) -> ([u32; 2], &[u8]) {
    let (numbers, rest) = header.split_at(8);
    let number = |at: usize| {
        let bytes = numbers[at..].first_chunk();
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    ([number(0), number(4)], rest)
}

/// Weights from a generator of random numbers, small enough for sums to stay near one.
struct MadeUpParts(u32);

impl MadeUpParts {
    /// Numbers around `mean` that 16-bit floats can hold.
    fn numbers(&mut self, count: usize, mean: f32, spread: f32) -> Vec<f32> {
        let mut number = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [.., high] = self.0.to_le_bytes();
            let value = mean + spread * (f32::from(high) / 128.0 - 1.0);
            from_half(to_half(value))
        };
        (0..count).map(|_| number()).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a kernel's size")]
    fn kernel(&mut self, shape: [usize; 4], inputs: usize, outputs: usize) -> KernelWeights {
        let spread = 2.0 / ((shape[0] * shape[1] * inputs) as f32).sqrt();
        KernelWeights {
            kernel: self.numbers(shape.iter().product(), 0.0, spread),
            bias: self.numbers(outputs, 0.0, 0.5),
        }
    }
}

impl PartSource for MadeUpParts {
    type Error = std::convert::Infallible;

    fn convolution(&mut self, shape: [usize; 4]) -> Result<KernelWeights, Self::Error> {
        Ok(self.kernel(shape, shape[2], shape[3]))
    }

    fn transposed(&mut self, shape: [usize; 4]) -> Result<KernelWeights, Self::Error> {
        Ok(self.kernel(shape, shape[3], shape[2]))
    }

    fn scale(&mut self, channels: usize) -> Result<ChannelScale, Self::Error> {
        Ok(ChannelScale {
            factor: self.numbers(channels, 1.0, 0.5),
            addend: self.numbers(channels, 0.0, 0.5),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::checkpoint::tests::write;
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let weights = NetWeights::made_up();
        let file = weights.to_bytes();
        assert_eq!(file.len(), file_bytes(1));
        assert_eq!(NetWeights::read(&file), Ok(weights));
        // Two nets of the published width have as many numbers as the publication says.
        assert_eq!(file_bytes(PUBLISHED_WIDTH), 39_304_920);
        let with = |position: usize, value: u8| {
            let mut file = file.clone();
            file[position] = value;
            NetWeights::read(&file).unwrap_err()
        };
        assert_eq!(with(0, 0), WeightsError::NotWeights);
        assert_eq!(with(8, 2), WeightsError::Version(2));
        assert_eq!(with(12, 17), WeightsError::Width(17));
        assert_eq!(with(12, 2).to_string().split(' ').next(), Some("it"));
        assert_eq!(with(100, !file[100]), WeightsError::Digest);
        assert_eq!(
            NetWeights::read(&file[..file.len() - 1]),
            Err(WeightsError::Size {
                found: file.len() - 1,
                expected: file.len()
            })
        );
    }

    proptest! {
        #[test]
        fn a_changed_or_cut_file_gives_an_error(at in 0usize..1 << 20, bit in 0u8..8, cuts: bool) {
            let mut file = NetWeights::made_up().to_bytes();
            let at = at % file.len();
            if cuts {
                file.truncate(at);
            } else {
                file[at] ^= 1 << bit;
            }
            prop_assert!(NetWeights::read(&file).is_err());
        }
    }

    /// Every tensor that a checkpoint of this width has, with the numbers of `made_up`.
    fn tensors(width: usize) -> Vec<(String, Vec<u64>, Vec<f32>)> {
        struct Writer(Vec<(String, Vec<u64>, Vec<f32>)>, MadeUpParts);
        impl Writer {
            fn add(&mut self, name: String, shape: &[usize], mean: f32) -> Vec<f32> {
                let numbers = self.1.numbers(shape.iter().product(), mean, 0.5);
                let shape = shape.iter().map(|size| *size as u64).collect();
                self.0.push((name, shape, numbers.clone()));
                numbers
            }
        }
        let mut writer = Writer(Vec::new(), MadeUpParts(3));
        for net in 0..2 {
            let name = |kind: &str, number: usize| match number {
                0 => kind.to_owned(),
                _ => format!("{kind}_{number}"),
            };
            let scale = |writer: &mut Writer, number: usize, channels: usize| {
                let layer = name("batch_normalization", 12 * net + number);
                for (part, mean) in [
                    ("beta", 0.0),
                    ("gamma", 1.0),
                    ("moving_mean", 0.0),
                    ("moving_variance", 1.0),
                ] {
                    writer.add(format!("{layer}/{part}"), &[channels], mean);
                }
            };
            for (i, (inputs, outputs)) in down_channels(width).into_iter().enumerate() {
                let layer = name("conv2d", 7 * net + i);
                writer.add(format!("{layer}/kernel"), &[5, 5, inputs, outputs], 0.0);
                writer.add(format!("{layer}/bias"), &[outputs], 0.0);
                scale(&mut writer, i, outputs);
            }
            for (i, (inputs, outputs)) in up_channels(width).into_iter().enumerate() {
                let layer = name("conv2d_transpose", 6 * net + i);
                writer.add(format!("{layer}/kernel"), &[5, 5, outputs, inputs], 0.0);
                writer.add(format!("{layer}/bias"), &[outputs], 0.0);
                scale(&mut writer, 6 + i, outputs);
            }
            let layer = name("conv2d", 7 * net + 6);
            writer.add(format!("{layer}/kernel"), &[4, 4, 1, 2], 0.0);
            writer.add(format!("{layer}/bias"), &[2], 0.0);
        }
        let mut tensors = writer.0;
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        tensors
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the same operations in the same order")]
    fn the_nets_are_taken_from_their_checkpoint() {
        let tensors = tensors(1);
        let (index, data) = write(&tensors);
        let checkpoint = Checkpoint::open(&index, &data).unwrap();
        let weights = NetWeights::from_checkpoint_of_width(&checkpoint, 1).unwrap();
        let numbers = |name: &str| &tensors.iter().find(|tensor| tensor.0 == name).unwrap().2;
        assert_eq!(&weights.voice.down[1].kernel, numbers("conv2d_1/kernel"));
        assert_eq!(&weights.voice.last.bias, numbers("conv2d_6/bias"));
        assert_eq!(
            &weights.accompaniment.down[0].bias,
            numbers("conv2d_7/bias")
        );
        let last_up = &weights.accompaniment.up[5];
        assert_eq!(&last_up.kernel, numbers("conv2d_transpose_11/kernel"));
        let part = |part: &str| numbers(&format!("batch_normalization_18/{part}"))[3];
        let factor = part("gamma") / (part("moving_variance") + 1e-3).sqrt();
        let scale = &weights.accompaniment.up_scales[0];
        assert_eq!(scale.factor[3], factor);
        assert_eq!(scale.addend[3], part("beta") - part("moving_mean") * factor);
        assert_eq!(NetWeights::read(&weights.to_bytes()).unwrap().width, 1);
        // The published nets are wider.
        let error = NetWeights::from_checkpoint(&checkpoint).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the tensor \"conv2d/kernel\" has the shape [5, 5, 2, 1] instead of [5, 5, 2, 16]"
        );
    }
}
