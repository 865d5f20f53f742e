//! Plain data types that every layer shares: tasks, prices, accounts, errors, ids and time.
//!
//! Begin with [`task`] and [`error`]. No database, no network, no files, no presentation;
//! [`private_memory`] alone does something: it protects the process.

pub mod account;
pub mod attribution;
pub mod audit;
pub mod bounds;
pub mod budget;
pub mod catalog;
pub mod clock;
pub mod csv;
pub mod database;
pub mod error;
pub mod feed;
pub mod ids;
pub mod intent;
pub mod ledger;
pub mod media;
pub mod money;
pub mod music;
pub mod price;
pub mod private_memory;
pub mod provenance;
pub mod request_log;
pub mod route;
pub mod search_terms;
pub mod secret;
pub mod submission;
pub mod task;
pub mod webhook;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::str::FromStr;

    use crate::account::Scope;
    use crate::ledger::EntryKind;
    use crate::media::MediaType;
    use crate::money::ChargeState;
    use crate::submission::SubmissionState;
    use crate::task::TaskState;

    fn round_trips<T: FromStr + Debug>(words: &str, name: impl Fn(T) -> &'static str) {
        for word in words.split(' ') {
            let Ok(value) = word.parse::<T>() else {
                panic!("{word} is not a valid {}", std::any::type_name::<T>());
            };
            assert_eq!(name(value), word);
        }
        assert!("Other".parse::<T>().is_err());
    }

    /// Databases of all versions contain these words.
    #[test]
    fn stored_words_stay() {
        round_trips("queued running succeeded failed cancelled", TaskState::name);
        round_trips("free held settled released", ChargeState::name);
        round_trips("reserve settle release adjust credit", EntryKind::name);
        let states = "intended accepted refused unclear found ended";
        round_trips(states, SubmissionState::name);
        let extensions = "mp4 flac png jpg webp gif bmp tiff";
        round_trips(extensions, MediaType::extension);
        let scopes = "video:create music:create persona:create media:upload tasks:read tasks:cancel webhooks:manage admin";
        round_trips(scopes, Scope::name);
    }
}
