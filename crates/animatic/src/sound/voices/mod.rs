//! The voices: one per kind of ambience, each from noise and pings.
//!
//! `weather` holds air and water that falls, `water` the sea and the brook, `place` what lives or
//! burns or drives. Levels inside a voice balance its parts; between voices `loudness` does.

mod place;
mod water;
mod weather;

use super::kinds::Ambience;
use super::voice::Voice;

/// The voice of a kind.
pub(super) fn voice(kind: Ambience, seed: u64) -> Box<dyn Voice> {
    match kind {
        Ambience::Wind => Box::new(weather::Wind::new(seed)),
        Ambience::Rain => Box::new(weather::Rain::new(seed)),
        Ambience::Thunder => Box::new(weather::Thunder::new(seed)),
        Ambience::Sea => Box::new(water::Sea::new(seed)),
        Ambience::Stream => Box::new(water::Stream::new(seed)),
        Ambience::Birds => Box::new(place::Birds::new(seed)),
        Ambience::Crickets => Box::new(place::Crickets::new(seed)),
        Ambience::Fire => Box::new(place::Fire::new(seed)),
        Ambience::City => Box::new(place::City::new(seed)),
        Ambience::RoomTone => Box::new(place::RoomTone::new(seed)),
    }
}
