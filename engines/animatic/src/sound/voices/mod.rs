//! The voices: one per kind of ambience, each from noise and pings.
//!
//! `weather` holds air and water that falls, `water` the sea and the brook, `place` what lives or
//! burns or drives. Levels inside a voice balance its parts; `loudness` balances the voices.

mod place;
mod water;
mod weather;

use super::kinds::Ambience;
use super::voice::AmbienceVoice;

/// The voice of a kind.
pub(super) fn voice(kind: Ambience, seed: u64) -> Box<dyn AmbienceVoice> {
    match kind {
        Ambience::Wind => Box::new(weather::WindVoice::new(seed)),
        Ambience::Rain => Box::new(weather::RainVoice::new(seed)),
        Ambience::Thunder => Box::new(weather::ThunderVoice::new(seed)),
        Ambience::Sea => Box::new(water::SeaVoice::new(seed)),
        Ambience::Stream => Box::new(water::StreamVoice::new(seed)),
        Ambience::Birds => Box::new(place::BirdsVoice::new(seed)),
        Ambience::Crickets => Box::new(place::CricketsVoice::new(seed)),
        Ambience::Fire => Box::new(place::FireVoice::new(seed)),
        Ambience::City => Box::new(place::CityVoice::new(seed)),
        Ambience::RoomTone => Box::new(place::RoomToneVoice::new(seed)),
    }
}
