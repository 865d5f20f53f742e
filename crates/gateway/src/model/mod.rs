//! Plain data that every layer shares: no I/O, no storage, no presentation.

pub mod account;
pub mod audit;
pub mod catalog;
pub mod feed;
pub mod intent;
pub mod ledger;
pub mod media;
pub mod money;
pub mod music;
pub mod price;
pub mod provenance;
pub mod route;
pub mod submission;
pub mod task;
pub mod webhook;
pub mod words;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::str::FromStr;

    use super::account::Scope;
    use super::ledger::EntryKind;
    use super::media::MediaType;
    use super::money::Money;
    use super::submission::SubmissionState;
    use super::task::TaskState;

    fn reads<T: FromStr + Debug>(words: &str, name: impl Fn(T) -> &'static str) {
        for word in words.split(' ') {
            let Ok(value) = word.parse::<T>() else {
                panic!("{word} is no {}", std::any::type_name::<T>());
            };
            assert_eq!(name(value), word);
        }
        assert!("Other".parse::<T>().is_err());
    }

    /// Databases of all versions hold these words.
    #[test]
    fn stored_words_stay() {
        reads("queued running succeeded failed cancelled", TaskState::name);
        reads("free held settled released", Money::name);
        reads("reserve settle release adjust credit", EntryKind::name);
        let states = "intended accepted refused unclear found ended";
        reads(states, SubmissionState::name);
        let extensions = "mp4 flac png jpg webp gif bmp tiff";
        reads(extensions, MediaType::extension);
        let scopes = "video:create music:create persona:create media:upload tasks:read tasks:cancel webhooks:manage admin";
        reads(scopes, Scope::name);
    }
}
