//! The stems of a mix, and their names.

/// What a mix can be separated into. The built-in engine makes five of them
/// ([`Stem::BUILT_IN`]); an operator's model makes those that it was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stem {
    /// Singing and speech.
    Vocals,
    /// Backing voices.
    BackingVocals,
    /// Drums and, if no other stem has it, other percussion.
    Drums,
    /// The bass line.
    Bass,
    /// Guitars.
    Guitar,
    /// Piano, organ and other keys.
    Keyboard,
    /// Percussion other than the drum kit.
    Percussion,
    /// Bowed strings.
    Strings,
    /// Synthesisers.
    Synth,
    /// Effects and noises.
    Fx,
    Brass,
    Woodwinds,
    /// The mix without everything that the engine or the model can separate.
    Other,
    /// The mix without vocals.
    Instrumental,
}

impl Stem {
    /// Every stem, in the order in which they are shown.
    pub const ALL: [Self; 14] = [
        Self::Vocals,
        Self::BackingVocals,
        Self::Drums,
        Self::Bass,
        Self::Guitar,
        Self::Keyboard,
        Self::Percussion,
        Self::Strings,
        Self::Synth,
        Self::Fx,
        Self::Brass,
        Self::Woodwinds,
        Self::Other,
        Self::Instrumental,
    ];

    /// The stems that the built-in engine makes, in the order in which they are shown.
    pub const BUILT_IN: [Self; 5] = [
        Self::Vocals,
        Self::Drums,
        Self::Bass,
        Self::Other,
        Self::Instrumental,
    ];

    /// The name in lower case, as in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vocals => "vocals",
            Self::BackingVocals => "backing_vocals",
            Self::Drums => "drums",
            Self::Bass => "bass",
            Self::Guitar => "guitar",
            Self::Keyboard => "keyboard",
            Self::Percussion => "percussion",
            Self::Strings => "strings",
            Self::Synth => "synth",
            Self::Fx => "fx",
            Self::Brass => "brass",
            Self::Woodwinds => "woodwinds",
            Self::Other => "other",
            Self::Instrumental => "instrumental",
        }
    }

    /// Finds a stem by name, ignoring case, `_`, `-` and spaces. Some models call the keyboard
    /// piano.
    pub fn parse(name: &str) -> Option<Self> {
        let normalised = |name: &str| -> String {
            let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
            letters.map(|c| c.to_ascii_lowercase()).collect()
        };
        let name = normalised(name);
        if name == "piano" {
            return Some(Self::Keyboard);
        }
        Self::ALL
            .into_iter()
            .find(|stem| normalised(stem.name()) == name)
    }

    /// Names for a sentence, separated by commas.
    pub(crate) fn list(stems: &[Self]) -> String {
        stems
            .iter()
            .map(|s| s.name())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl std::fmt::Display for Stem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// How many stems the built-in engine separates: vocals, drums, bass, other.
pub(crate) const STEMS: usize = 4;
