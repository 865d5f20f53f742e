//! Providers' names for the parts of a recording.
//!
//! One table for all of them: a spelling means the same for every provider. Unknown names are not
//! guessed.

use crate::order::{StemGroup, StemTarget, normalize_name};

/// The stem with this name.
pub(super) fn target(name: &str) -> Option<StemTarget> {
    let name = normalize_name(name);
    if let Some(group_name) = name.strip_prefix("no ").or(name.strip_prefix("without ")) {
        return group(group_name).map(StemTarget::Without);
    }
    match name.as_str() {
        "instrumental" | "instrumentals" | "accompaniment" | "backing track" | "background" => {
            Some(StemTarget::Without(StemGroup::Vocals))
        }
        "other" | "others" | "rest" => Some(StemTarget::Other),
        _ => group(&name).map(StemTarget::Only),
    }
}

/// The group of this name, in any spelling that a provider uses.
pub(super) fn group(name: &str) -> Option<StemGroup> {
    let name = normalize_name(name);
    StemGroup::from_name(&name).or(match name.as_str() {
        "vocal" | "voice" | "lead vocal" | "lead vocals" => Some(StemGroup::Vocals),
        "backing vocal" => Some(StemGroup::BackingVocals),
        "drum" | "drum kit" => Some(StemGroup::Drums),
        "guitars" | "electric guitar" | "acoustic guitar" => Some(StemGroup::Guitar),
        "piano" | "keys" | "keyboards" => Some(StemGroup::Keyboard),
        "string section" => Some(StemGroup::Strings),
        "synths" | "synthesizer" => Some(StemGroup::Synth),
        "sound effects" | "fx/other" => Some(StemGroup::Fx),
        "brass section" => Some(StemGroup::Brass),
        "wind" | "winds" | "woodwind" => Some(StemGroup::Woodwinds),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_recognized() {
        for (name, expected) in [
            ("vocals", Some(StemTarget::Only(StemGroup::Vocals))),
            (
                "Backing Vocal",
                Some(StemTarget::Only(StemGroup::BackingVocals)),
            ),
            ("drum", Some(StemTarget::Only(StemGroup::Drums))),
            ("piano", Some(StemTarget::Only(StemGroup::Keyboard))),
            ("FX/Other", Some(StemTarget::Only(StemGroup::Fx))),
            ("no_vocals", Some(StemTarget::Without(StemGroup::Vocals))),
            ("Instrumental", Some(StemTarget::Without(StemGroup::Vocals))),
            ("No Drums", Some(StemTarget::Without(StemGroup::Drums))),
            ("no_multistem", None),
            ("Other", Some(StemTarget::Other)),
            ("Two", None),
            ("kazoo", None),
        ] {
            assert_eq!(target(name), expected, "{name}");
        }
        for &group in StemGroup::ALL {
            for stem in [StemTarget::Only(group), StemTarget::Without(group)] {
                assert_eq!(target(&stem.name()), Some(stem), "{}", stem.name());
            }
        }
    }
}
