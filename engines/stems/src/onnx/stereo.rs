//! Stereo sound: a left and a right channel.

pub(super) type StereoSound = [Vec<f32>; 2];

/// Groups channels that alternate left and right into pairs.
pub(super) fn pairs<T>(channels: Vec<T>) -> Vec<[T; 2]> {
    let mut channels = channels.into_iter();
    let mut pairs = Vec::new();
    while let (Some(left), Some(right)) = (channels.next(), channels.next()) {
        pairs.push([left, right]);
    }
    pairs
}
