//! `mediagate demo`: shows everything with one command, through the same HTTP endpoints that
//! callers use.

mod step_progress;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cli::{CliError, confinement, runtime, say, serve};
use mediagate_config::{Config, LogFormat, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::keys::{self, NewKey};
use mediagate_media::engines::own_models::NET_MODEL;

const PROMPT: &str = "A lake under the mountains at first light, slow dolly in, 5 seconds";
/// A lake below mountains at sunrise, drawn by a program of ours.
const PICTURE: &[u8] = include_bytes!("demo/lake.jpg");
/// Eight seconds of a singer, drums, a bass and chords, synthesised from our own score.
const SONG: &[u8] = include_bytes!("demo/song.flac");
const BETTER_STEMS: &str = "For better stems: mediagate models install spleeter";

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Exit when the demo is done, instead of keeping the gateway running
    #[arg(long)]
    once: bool,
    /// Folder for the results
    #[arg(long, default_value = "./mediagate-demo", value_name = "FOLDER")]
    out: PathBuf,
}

pub(super) fn run(args: &DemoArgs, cli_settings: &Settings) -> Result<(), CliError> {
    // Deleted when this function returns, even with an error.
    let temporary = tempfile::tempdir().map_err(CliError::failed)?;
    let data = match &cli_settings.data {
        Some(folder) => check_empty(folder)?,
        None => temporary.path(),
    };
    // Any free port, for this machine only: a demo must neither collide with a server nor let
    // others in.
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings {
        data: Some(data.to_owned()),
        listen: Some(cli_settings.listen.unwrap_or(loopback)),
        log: Some(cli_settings.log.clone().unwrap_or_else(|| "warn".into())),
        ..cli_settings.clone()
    };
    let mut config = Config::load(&settings)?;
    if config.log_format == LogFormat::Auto {
        config.log_format = LogFormat::Text;
    }
    // A file or the environment may name a real database, bucket or URL, which the demo must not
    // touch.
    config.database = mediagate_config::DatabaseTarget::Sqlite;
    config.media = mediagate_config::MediaConfig::default();
    config.public_url = None;
    config.submit_body = mediagate_config::SubmitBody::Record;
    let _logging = mediagate_telemetry::logs::start(&config)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| CliError::Failed(format!("the folder {}: {error}", args.out.display())))?;
    let app = confinement::open(config)?;
    runtime()?.block_on(show(args, cli_settings.data.as_deref(), app))
}

/// The folder, unless there is something in it: the demo never touches existing data.
fn check_empty(folder: &Path) -> Result<&Path, CliError> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(CliError::Failed(format!("{}: {error}", folder.display()))),
    };
    if is_empty {
        return Ok(folder);
    }
    Err(CliError::Usage(format!(
        "the folder {} is not empty; use a new or empty folder for --data, or omit it",
        folder.display()
    )))
}

async fn show(args: &DemoArgs, data: Option<&Path>, app: App) -> Result<(), CliError> {
    let listener = TcpListener::bind(app.config.listen)
        .await
        .map_err(CliError::failed)?;
    let base = format!(
        "http://{}",
        listener.local_addr().map_err(CliError::failed)?
    );
    let account = accounts::ensure(&app, "demo").await?;
    let (_, key) = keys::create(
        &app,
        &account,
        NewKey {
            name: "demo".into(),
            ..NewKey::default()
        },
    )
    .await?;
    // The listener is bound, so the first call just waits until the server accepts.
    #[expect(clippy::disallowed_methods, reason = "awaited below")]
    let server = tokio::spawn({
        let app = app.clone();
        async move { serve::serve_until_drained(&app, listener).await }
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "it calls this process, as any caller would"
    )]
    let client = reqwest::Client::new();
    let demo = DemoClient {
        client,
        music: format!("{base}/{}", app.config.brand),
        base: base.clone(),
        key: key.expose().to_owned(),
        out: args.out.clone(),
        rows: Vec::new(),
    };
    // An error is returned only after the server has stopped cleanly.
    let result = demo.run().await;
    if let Ok(table) = &result {
        say(table)?;
        if !app.models.installed_models.has(NET_MODEL) {
            say(BETTER_STEMS)?;
        }
        if !args.once {
            let data = match data {
                Some(folder) => format!("{} and {} are kept", folder.display(), args.out.display()),
                None => format!("Its data is then deleted; {} is kept", args.out.display()),
            };
            say(&format!(
                "\nOpen {base}/console and sign in with the key {}\nPress Ctrl-C to stop the gateway. {data}.",
                key.expose(),
            ))?;
            tokio::signal::ctrl_c().await.map_err(CliError::failed)?;
        }
    }
    app.process.draining.cancel();
    server.await.map_err(CliError::failed)?;
    result.map(|_| ())
}

/// A client of the gateway that saves the results.
struct DemoClient {
    client: reqwest::Client,
    base: String,
    /// URL of the music endpoints.
    music: String,
    key: String,
    out: PathBuf,
    rows: Vec<[String; 4]>,
}

impl DemoClient {
    async fn run(mut self) -> Result<String, CliError> {
        let progress = step_progress::StepProgress {
            client: self.client.clone(),
            base: self.base.clone(),
            key: self.key.clone(),
        };
        let name = "1/3  Generating a video from a picture";
        progress
            .step(name, Some("video"), self.make_video())
            .await?;
        let name = "2/3  Separating a song into stems";
        let clip = progress
            .step(name, Some("music"), self.make_stems())
            .await?;
        let name = "3/3  Creating a persona from the song";
        progress.step(name, None, self.make_persona(&clip)).await?;
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["Result", "File", "Size", "Time"]);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in [2, 3] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Ok(table.to_string())
    }

    /// Makes a video from a picture and a prompt.
    async fn make_video(&mut self) -> Result<(), CliError> {
        self.save("sample picture", "picture.jpg", PICTURE, Duration::ZERO)?;
        let started = Instant::now();
        let address = format!("data:image/jpeg;base64,{}", encode(PICTURE));
        // With a seed, so that the demo makes the same film on every machine.
        let body = json!({"model": "animatic-1", "max_tokens": 1000, "video": {"seed": 7}, "messages": [{"role": "user", "content": [
            {"type": "text", "text": PROMPT},
            {"type": "image_url", "image_url": {"url": address}},
        ]}]});
        let answer = self
            .post(&format!("{}/v1/chat/completions", self.base), &body)
            .await?;
        let elapsed = started.elapsed();
        let video = self
            .download(&answer["choices"][0]["message"]["content"])
            .await?;
        self.save("video", "video.mp4", &video, elapsed)?;
        self.save_record("video response", "chat-completion.json", &answer)
    }

    /// Separates a song into stems. Returns the song's clip.
    async fn make_stems(&mut self) -> Result<String, CliError> {
        self.save("sample song", "song.flac", SONG, Duration::ZERO)?;
        let part = Part::bytes(SONG).file_name("Demo song.flac");
        let request = self.client.post(format!("{}/uploads/audio", self.music));
        let clip = self
            .send(request.multipart(Form::new().part("file", part)))
            .await?;
        let id = clip["id"].as_str().unwrap_or_default().to_owned();
        let started = Instant::now();
        let body = json!({"task": "gen_stem", "continue_clip_id": id, "stem_task": "twelve", "stem_type_group_name": "Twelve"});
        let submission = self
            .post(&format!("{}/submit/music", self.music), &body)
            .await?;
        let task = submission["id"].as_str().unwrap_or_default().to_owned();
        let record = self.await_task(&task).await?;
        let elapsed = started.elapsed();
        for clip in record["clips"].as_array().into_iter().flatten() {
            let group = clip["metadata"]["stem_type_group_name"]
                .as_str()
                .unwrap_or("stem");
            let audio = self.download(&clip["audio_url"]).await?;
            self.save(
                &format!("stem: {group}"),
                &format!("{}.flac", group.to_lowercase()),
                &audio,
                elapsed,
            )?;
        }
        self.save_record("stems record", "music-task.json", &record)?;
        Ok(id)
    }

    /// Makes a persona from a clip.
    async fn make_persona(&mut self, clip: &str) -> Result<(), CliError> {
        let started = Instant::now();
        let body = json!({"root_clip_id": clip, "name": "Demo voice", "description": "Sings the demo song.", "is_public": false});
        let persona = self
            .post(&format!("{}/persona/create", self.music), &body)
            .await?;
        let elapsed = started.elapsed();
        let picture = self.download(&persona["image_s3_id"]).await?;
        self.save("persona picture", "persona.png", &picture, elapsed)?;
        self.save_record("persona record", "persona.json", &persona)
    }

    async fn await_task(&self, id: &str) -> Result<Value, CliError> {
        loop {
            let task = self
                .get(&format!("{}/v1/tasks/{id}?wait=30", self.base))
                .await?;
            match task["status"].as_str() {
                Some("succeeded") => return self.get(&format!("{}/tasks/{id}", self.music)).await,
                // No pause is needed: `wait` makes the server delay its answer.
                Some("queued" | "running") => {}
                _ => {
                    return Err(CliError::Failed(format!(
                        "the task failed: {}",
                        task["error"]["message"]
                    )));
                }
            }
        }
    }

    async fn post(&self, address: &str, body: &Value) -> Result<Value, CliError> {
        self.send(self.client.post(address).json(body)).await
    }

    async fn get(&self, address: &str) -> Result<Value, CliError> {
        self.send(self.client.get(address)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value, CliError> {
        let answer = request
            .bearer_auth(&self.key)
            .send()
            .await
            .map_err(CliError::failed)?;
        let is_success = answer.status().is_success();
        let body: Value = answer.json().await.map_err(CliError::failed)?;
        if is_success {
            Ok(body)
        } else {
            Err(CliError::Failed(body["error"]["message"].to_string()))
        }
    }

    async fn download(&self, address: &Value) -> Result<Vec<u8>, CliError> {
        let address = address.as_str().unwrap_or_default();
        let answer = self
            .client
            .get(address)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status);
        let bytes = answer
            .map_err(CliError::failed)?
            .bytes()
            .await
            .map_err(CliError::failed)?;
        Ok(bytes.to_vec())
    }

    fn save_record(&mut self, label: &str, name: &str, record: &Value) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(record).map_err(CliError::failed)?;
        self.save(label, name, text.as_bytes(), Duration::ZERO)
    }

    fn save(
        &mut self,
        label: &str,
        name: &str,
        bytes: &[u8],
        elapsed: Duration,
    ) -> Result<(), CliError> {
        let path = self.out.join(name);
        std::fs::write(&path, bytes)
            .map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))?;
        let time = if elapsed.is_zero() {
            String::new()
        } else {
            format!("{:.2} s", elapsed.as_secs_f64())
        };
        self.rows.push([
            label.to_owned(),
            path.display().to_string(),
            size(bytes.len()),
            time,
        ]);
        Ok(())
    }
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[expect(clippy::cast_precision_loss, reason = "shown to one decimal")]
fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
