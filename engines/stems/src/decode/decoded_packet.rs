//! The shape of a decoded packet, whose samples are in planes.

/// The shape of a decoded packet.
pub(super) struct DecodedPacket {
    pub(super) rate: u32,
    /// Samples of each channel.
    pub(super) frames: usize,
    /// Samples of each channel that the packet covers, with those that its codec drops.
    pub(super) block: usize,
}
