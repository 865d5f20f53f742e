//! Prints, as JSON, what our adapters send for a fixed set of orders: the simulator's journal of
//! each case. The checks of `tools/simulator/tests/sdk` give official SDKs the same input and
//! compare the requests.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own"
)]

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use providers::driver::{
    Driver, OrderAcceptance, PollOutcome, ProgressWatch, Provider, ProviderRules, SendDeadline,
};
use providers::order::{
    MediaFile, PictureRole, SeparationSpec, SongSpec, SourcePicture, SourceRecording, StemGroup,
    StemTarget, VideoOptions, VideoSpec,
};
use providers::{JobOutput, Order, OutputSource, ProviderSettings, Secret, WorkSpec};
use serde_json::{Map, Value, json};
use simulator::{JobPlan, Simulator};

/// An order to a provider.
struct Case {
    /// The protocol, and what is special about the case.
    name: &'static str,
    options: Value,
    order: Order,
    /// What becomes of it.
    end: End,
}

/// What becomes of a job.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// It is polled until it ends, and its results are fetched.
    Fetched,
    /// It is cancelled.
    Cancelled,
    /// It is looked for, as if the submission's answer had been lost.
    LookedFor,
}

const PROMPT: &str = "a lighthouse in a storm";
const KEY: &str = "sk-check";
/// fal's keys are pairs.
const FAL_KEY: &str = "id:sk-check";

fn case(name: &'static str, model: &str, work: WorkSpec) -> Case {
    Case {
        name,
        options: json!({}),
        order: Order {
            idempotency_key: "key-of-the-order".into(),
            model: model.into(),
            extra: serde_json::Map::new(),
            work,
        },
        end: End::Fetched,
    }
}

impl Case {
    fn with(mut self, options: Value) -> Self {
        self.options = options;
        self
    }

    fn called_off(mut self) -> Self {
        self.end = End::Cancelled;
        self
    }

    fn looked_for(mut self) -> Self {
        self.end = End::LookedFor;
        self
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    use PictureRole::{FirstFrame, LastFrame};
    let hd = (1280, 720);
    vec![
        case("openai-videos: text", "sora-2", video(4, hd, [])),
        case(
            "openai-videos: picture",
            "sora-2",
            video(4, hd, [small(FirstFrame)]),
        ),
        case("openai-videos: cancel", "sora-2", video(4, hd, [])).called_off(),
        case("openai-videos: find", "sora-2", video(4, hd, [])).looked_for(),
        case("openai-videos: text as json", "sora-2", video(4, hd, []))
            .with(json!({"encoding": "json"})),
        case("openai-videos: cancel as json", "sora-2", video(4, hd, []))
            .with(json!({"encoding": "json"}))
            .called_off(),
        case("fal: text", "fal-ai/veo3.1", video(8, hd, [])),
        case(
            "fal: picture",
            "fal-ai/veo3.1/image-to-video",
            video(8, hd, [small(FirstFrame)]),
        ),
        case(
            "fal: upload",
            "fal-ai/veo3.1/image-to-video",
            video(8, hd, [large(FirstFrame)]),
        ),
        case("fal: cancel", "fal-ai/veo3.1", video(8, hd, [])).called_off(),
        case("fal: stems", "fal-ai/demucs", stems()),
        case(
            "fal: song",
            "fal-ai/stable-audio-25/text-to-audio",
            song(&json!({"prompt": BLUES, "seconds": 60})),
        ),
        case("replicate: text", "google/veo-3.1", video(8, hd, [])),
        case(
            "replicate: picture",
            "google/veo-3.1",
            video(8, hd, [small(FirstFrame)]),
        ),
        case(
            "replicate: upload",
            "google/veo-3.1",
            video(8, hd, [large(FirstFrame)]),
        ),
        case("replicate: cancel", "google/veo-3.1", video(8, hd, [])).called_off(),
        case("replicate: find", "google/veo-3.1", video(8, hd, [])).looked_for(),
        case("replicate: stems", DEMUCS, stems()),
        case(
            "replicate: song",
            "stability-ai/stable-audio-2.5",
            song(&json!({"prompt": BLUES, "seconds": 60})),
        ),
        case("xai: text", "grok-imagine-video", video(5, hd, [])),
        case(
            "xai: picture",
            "grok-imagine-video",
            video(5, hd, [small(FirstFrame)]),
        ),
        case(
            "xai: frames",
            "grok-imagine-video-1.5",
            video(5, hd, [small(FirstFrame), small(LastFrame)]),
        ),
        case("runway: text", "veo3.1", video(8, hd, [])),
        case(
            "runway: picture",
            "gen4_turbo",
            video(5, hd, [small(FirstFrame)]),
        ),
        case(
            "runway: upload",
            "gen4_turbo",
            video(5, hd, [large(FirstFrame)]),
        ),
        case(
            "runway: cancel",
            "gen4_turbo",
            video(5, hd, [small(FirstFrame)]),
        )
        .called_off(),
        case("luma: text", "ray-3.2", video(5, hd, [])),
        case(
            "luma: frames",
            "ray-3.2",
            video(5, hd, [small(FirstFrame), small(LastFrame)]),
        ),
        case("luma: dream machine text", "ray-2", video(5, hd, []))
            .with(json!({"api": "dream-machine"})),
        case(
            "luma: dream machine frames",
            "ray-2",
            video(5, hd, [web_picture(FirstFrame), web_picture(LastFrame)]),
        )
        .with(json!({"api": "dream-machine"})),
        case("luma: dream machine cancel", "ray-2", video(5, hd, []))
            .with(json!({"api": "dream-machine"}))
            .called_off(),
        case("luma: dream machine find", "ray-2", video(5, hd, []))
            .with(json!({"api": "dream-machine"}))
            .looked_for(),
        case(
            "modelark: find",
            "seedance-1-5-pro-251215",
            video(5, hd, []),
        )
        .looked_for(),
        case(
            "modelark: text",
            "seedance-1-5-pro-251215",
            video(5, hd, []),
        ),
        case(
            "modelark: frames",
            "seedance-1-5-pro-251215",
            video(5, hd, [small(FirstFrame), small(LastFrame)]),
        ),
        case(
            "modelark: cancel",
            "seedance-1-5-pro-251215",
            video(5, hd, []),
        )
        .called_off(),
        case("dashscope: text", "wan2.6-t2v", video(5, hd, [])),
        case(
            "dashscope: picture",
            "wan2.6-i2v",
            video(5, hd, [small(FirstFrame)]),
        ),
        case(
            "dashscope: frames",
            "wan2.2-kf2v-flash",
            video(5, hd, [small(FirstFrame), small(LastFrame)]),
        ),
        case(
            "dashscope: list of pictures",
            "wan2.7-i2v",
            video(5, hd, [small(FirstFrame)]),
        ),
        case("dashscope: cancel", "wan2.6-t2v", video(5, hd, [])).called_off(),
        case(
            "gemini-veo: text",
            "veo-3.1-generate-preview",
            video(8, hd, []),
        ),
        case(
            "gemini-veo: frames",
            "veo-3.1-generate-preview",
            video(8, hd, [small(FirstFrame), small(LastFrame)]),
        ),
        case(
            "gemini-veo: vertex text",
            "veo-3.1-generate-001",
            video(8, hd, []),
        )
        .with(vertex()),
        case(
            "gemini-veo: vertex picture",
            "veo-3.1-generate-001",
            video(8, hd, [small(FirstFrame)]),
        )
        .with(vertex()),
        case("gemini-veo: interactions text", OMNI, video(8, hd, [])).with(interactions()),
        case(
            "gemini-veo: interactions picture",
            OMNI,
            video(8, hd, [small(FirstFrame)]),
        )
        .with(interactions()),
        case("gemini-veo: interactions cancel", OMNI, video(8, hd, []))
            .with(interactions())
            .called_off(),
        case(
            "gemini-veo: interactions song",
            "lyria-3.5",
            song(&json!({"prompt": BLUES})),
        ),
        case("elevenlabs: stems", "six_stems_v1", stems()),
        case("musicai: stems", "stems", stems()),
        case("musicai: find", "stems", stems()).looked_for(),
    ]
}

const OMNI: &str = "gemini-omni-1.2-flash";

fn vertex() -> Value {
    json!({"api": "vertex", "project": "simulated", "location": "europe-west4"})
}

fn interactions() -> Value {
    json!({"api": "interactions"})
}

/// `cjwbw/demucs` at Replicate.
const DEMUCS: &str =
    "cjwbw/demucs:25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953";

fn video<const N: usize>(seconds: u32, size: (u32, u32), pictures: [SourcePicture; N]) -> WorkSpec {
    WorkSpec::Video(VideoSpec {
        prompt: PROMPT.into(),
        pictures: pictures.into(),
        seconds,
        size,
        options: VideoOptions::default(),
    })
}

const BLUES: &str = "slow blues";

fn song(fields: &Value) -> WorkSpec {
    WorkSpec::Song(SongSpec {
        task: "generate".into(),
        fields: fields.as_object().cloned().unwrap_or_default(),
        uploads: Vec::new(),
    })
}

/// Not a real picture.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n";

fn small(role: PictureRole) -> SourcePicture {
    picture(role, PICTURE.into(), None)
}

/// Too large for a request itself.
fn large(role: PictureRole) -> SourcePicture {
    let mut bytes = PICTURE.to_vec();
    bytes.resize(5_000_000, 0);
    picture(role, bytes, None)
}

/// One that the provider can fetch.
fn web_picture(role: PictureRole) -> SourcePicture {
    let url = "https://example.com/picture.png";
    picture(role, PICTURE.into(), Some(url.into()))
}

fn picture(role: PictureRole, bytes: Vec<u8>, url: Option<String>) -> SourcePicture {
    SourcePicture {
        role,
        file: MediaFile {
            name: "picture.png".into(),
            mime: "image/png",
            bytes: bytes.into(),
            url,
        },
    }
}

/// A full split of a file that is no recording.
fn stems() -> WorkSpec {
    let groups = [
        StemGroup::Vocals,
        StemGroup::Drums,
        StemGroup::Bass,
        StemGroup::Guitar,
        StemGroup::Keyboard,
    ];
    let targets = groups.into_iter().map(StemTarget::Only);
    WorkSpec::Stems(SeparationSpec {
        source: SourceRecording {
            file: MediaFile {
                name: "song.mp3".into(),
                mime: "audio/mpeg",
                bytes: b"ID3\x04".as_slice().into(),
                url: None,
            },
            milliseconds: 10_000,
            upstream: None,
        },
        targets: targets.chain([StemTarget::Other]).collect(),
        full: true,
        title: "Song".into(),
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let simulator = Simulator::start().await?;
    let mut all = Map::new();
    let mut failed = false;
    for case in cases() {
        simulator.world().reset();
        simulator.world().set_plan(JobPlan {
            queued: Duration::from_secs(if case.end == End::Cancelled { 60 } else { 0 }),
            running: Duration::ZERO,
            polls: 1,
            ..JobPlan::default()
        });
        match run(&simulator, &case).await {
            Ok(()) => _ = all.insert(case.name.into(), journal(&simulator)),
            Err(error) => {
                failed = true;
                eprintln!("{}: {error:#}", case.name);
            }
        }
    }
    println!("{:#}", Value::Object(all));
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The requests that the simulator received, without its address.
fn journal(simulator: &Simulator) -> Value {
    let journal = simulator.world().journal();
    let journal: Value = journal
        .iter()
        .map(simulator::ReceivedRequest::to_json)
        .collect();
    let origin = format!("http://{}", simulator.address());
    let text = journal.to_string().replace(&origin, "SIMULATOR");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Made for tests; it gets its tokens from the simulator.
const ACCOUNT: &str = include_str!("../tests/data/service-account.json");

async fn run(simulator: &Simulator, case: &Case) -> anyhow::Result<()> {
    let (name, _) = case.name.split_once(':').context("no protocol")?;
    let protocol = providers::protocol(name).context("no such protocol")?;
    let settings = ProviderSettings {
        base_url: Some(simulator.url(name).parse()?),
        ..ProviderSettings::new(name, case.options.as_object().cloned().unwrap_or_default())
    };
    let provider = Provider::new(protocol, &settings, ProviderRules::default())?;
    let driver = Driver::new();
    let secret = Secret::new(match name {
        "fal" => FAL_KEY,
        _ if case.options["api"] == "vertex" => ACCOUNT,
        _ => KEY,
    });
    let accepted = driver
        .submit(
            &provider,
            &secret,
            &case.order,
            &ProgressWatch::new(),
            async || anyhow::Ok(SendDeadline::any_time()),
        )
        .await;
    let outputs = match accepted.map_err(|error| anyhow::anyhow!("{error}"))? {
        OrderAcceptance::Done(outputs) => outputs,
        OrderAcceptance::Job { handle, .. } if case.end == End::Cancelled => {
            driver.cancel(&provider, &secret, &handle).await?;
            return Ok(());
        }
        OrderAcceptance::Job { handle, .. } if case.end == End::LookedFor => {
            let since = SystemTime::UNIX_EPOCH;
            let found = driver.find(&provider, &secret, &case.order, since).await?;
            let jobs = found.context("nobody can be asked")?.jobs;
            ensure!(jobs.len() == 1 && jobs[0].handle == handle, "{jobs:?}");
            return Ok(());
        }
        OrderAcceptance::Job { handle, .. } => loop {
            match driver.poll(&provider, &secret, &handle).await? {
                PollOutcome::Done(outputs) => break outputs,
                PollOutcome::Running { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        },
    };
    ensure!(!outputs.is_empty(), "nothing was made");
    for JobOutput { source, .. } in &outputs {
        if !matches!(source, OutputSource::Bytes(_) | OutputSource::Nothing) {
            let mut file = tokio::fs::File::from_std(tempfile::tempfile()?);
            driver
                .download(&provider, &secret, source, &mut file)
                .await?;
        }
    }
    Ok(())
}
