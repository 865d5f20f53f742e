//! `elevenlabs`: stem separation, answered with a ZIP archive on the same
//! connection, and songs, answered with the recording.

use bytes::Bytes;
use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::PlannedEnd;

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "elevenlabs",
    routes: |site| {
        site.error(|status| json!({"detail": {"status": format!("simulated_{status}"), "message": "simulated"}}))
            .route("POST", "/v1/music/stem-separation", RequestRole::Submit, separate)
            .route("POST", "/v1/music", RequestRole::Submit, compose)
    },
};

fn separate(request: &SimulatedRequest) -> SimulatedReply {
    if request.header("xi-api-key").is_empty() {
        return error(401, "missing_api_key", "xi-api-key is required");
    }
    if request.body["file"]["bytes"].as_u64().unwrap_or(0) == 0 {
        return invalid("file", "Field required");
    }
    let format = request.query.get("output_format").map(String::as_str);
    if !matches!(format, None | Some("mp3_44100_128" | "mp3_44100_192")) {
        return invalid("output_format", "Input is not one of the formats");
    }
    let names: &[&str] = match request.body["stem_variation_id"].as_str() {
        Some("two_stems_v1") => &["vocals", "instrumental"],
        None | Some("six_stems_v1") => &["vocals", "drums", "bass", "guitar", "piano", "other"],
        Some(_) => return invalid("stem_variation_id", "Input is not one of the variations"),
    };
    let id = request.world.uuid();
    let job = request
        .world
        .accept("elevenlabs", id, request.body.clone(), Value::Null);
    let reply = match job.plan.end {
        PlannedEnd::Success => {
            let files = names.iter().zip(1_u8..).map(|(name, number)| {
                let sound = media::audio(2_000, 110.0 * f64::from(number));
                (format!("{name}.mp3"), sound)
            });
            SimulatedReply::file("application/zip", archive(&files.collect::<Vec<_>>()))
        }
        PlannedEnd::Empty => SimulatedReply::file("application/zip", archive(&[])),
        PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal => error(
            500,
            "separation_failed",
            "The recording could not be separated",
        ),
    };
    // ElevenLabs has no jobs. The result comes on the same connection, and is lost with it although
    // it may be paid for.
    reply.with_delay(job.plan.queued + job.plan.running)
}

fn compose(request: &SimulatedRequest) -> SimulatedReply {
    if request.header("xi-api-key").is_empty() {
        return error(401, "missing_api_key", "xi-api-key is required");
    }
    let body = &request.body;
    let members = [
        "prompt",
        "model_id",
        "music_length_ms",
        "force_instrumental",
    ];
    let fields = body.as_object();
    let unknown_field =
        fields.and_then(|fields| fields.keys().find(|key| !members.contains(&key.as_str())));
    if let Some(unknown_field) = unknown_field {
        return invalid(unknown_field, "Extra inputs are not permitted");
    }
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !(1..=4_100).contains(&prompt.chars().count()) {
        return invalid("prompt", "String should have 1 to 4100 characters");
    }
    if !matches!(
        body["model_id"].as_str(),
        Some("music_v1" | "music_v2" | "music_v2_5")
    ) {
        return invalid("model_id", "Input is not one of the models");
    }
    let length = &body["music_length_ms"];
    let milliseconds = length.as_u64().unwrap_or(2_000);
    if !length.is_null() && !(3_000..=600_000).contains(&milliseconds) {
        return invalid("music_length_ms", "Input should be from 3000 to 600000");
    }
    if prompt.contains("forbidden") {
        return error(400, "bad_prompt", "The prompt names what is protected");
    }
    let id = request.world.uuid();
    let job = request
        .world
        .accept("elevenlabs", id, body.clone(), Value::Null);
    let reply = match job.plan.end {
        PlannedEnd::Success => {
            // Short, whatever was ordered: ten minutes of audio would be 100 MB.
            SimulatedReply::file("audio/mpeg", media::audio(milliseconds.min(4_000), 220.0))
        }
        PlannedEnd::Empty => SimulatedReply::file("audio/mpeg", Bytes::new()),
        PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal => {
            error(500, "composition_failed", "The song could not be made")
        }
    };
    reply.with_delay(job.plan.queued + job.plan.running)
}

/// A ZIP archive that stores its files uncompressed.
fn archive(files: &[(String, Bytes)]) -> Bytes {
    let two_bytes = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
    let four_bytes = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in files {
        // Version 2.0, no flags, stored, midnight of 1 January 1980.
        let mut header = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        header.extend(checksum(bytes).to_le_bytes());
        header.extend(four_bytes(bytes.len()));
        header.extend(four_bytes(bytes.len()));
        header.extend(two_bytes(name.len()));
        header.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&header);
        // Length of the comment, number of the disk, and attributes: all zero.
        directory.extend([0; 10]);
        directory.extend(four_bytes(archive.len()));
        directory.extend(name.as_bytes());
        archive.extend(b"PK\x03\x04");
        archive.extend(&header);
        archive.extend(name.as_bytes());
        archive.extend(bytes);
    }
    let start = archive.len();
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(two_bytes(files.len()));
    archive.extend(two_bytes(files.len()));
    archive.extend(four_bytes(directory.len()));
    archive.extend(four_bytes(start));
    archive.extend([0, 0]);
    archive.into()
}

/// CRC-32 as used by ZIP.
fn checksum(bytes: &[u8]) -> u32 {
    // 0xedb88320 is the polynomial of CRC-32 with its bits reversed, for a register that shifts
    // right.
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 * (sum & 1))
        })
    })
}

fn invalid(field: &str, message: &str) -> SimulatedReply {
    let fault = json!({"type": "value_error", "loc": ["body", field], "msg": message});
    SimulatedReply::json(422, &json!({"detail": [fault]}))
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"detail": {"status": code, "message": message}}),
    )
}
