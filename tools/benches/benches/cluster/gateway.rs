//! Gateways as processes, on a Postgres of the benchmark's own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::{JobPlan, Simulator};

use crate::cluster::Cluster;
use crate::process::{Process, built_program, eventually, other_program, output};
use benches::{cpu_time_of, resident_memory_of};

/// Which models a gateway has.
#[derive(Clone, Copy)]
pub(crate) enum Model {
    /// One whose jobs take an hour.
    Hosted,
    /// One whose provider takes one job: the others wait.
    Full,
    /// No hosted model.
    Other,
}

pub(crate) struct Deployment {
    cluster: Cluster,
    simulator: Simulator,
    folder: tempfile::TempDir,
    key: String,
}

fn program(words: &[&str]) -> std::process::Command {
    let named = std::env::var_os("MEDIAGATE_BENCH_PROGRAM").map(PathBuf::from);
    other_program(&named.unwrap_or_else(built_program), words)
}

impl Deployment {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::start();
        // The server itself counts its statements, including those that drivers send by themselves.
        // It loads the library for that only when it starts.
        let library = "shared_preload_libraries";
        cluster.set(library, "pg_stat_statements").await;
        cluster.stop_immediately();
        cluster.start_again();
        cluster.execute("CREATE EXTENSION pg_stat_statements").await;
        let simulator = Simulator::start().await.unwrap();
        simulator.world().set_plan(JobPlan {
            running: Duration::from_hours(1),
            ..JobPlan::default()
        });
        simulator.world().set_journal(false);
        let mut deployment = Self {
            cluster,
            simulator,
            folder: tempfile::tempdir().unwrap(),
            key: String::new(),
        };
        let unlimited = ["--rpm", "4000000000"];
        deployment.key = deployment.key(&unlimited).await;
        deployment
    }

    fn settings(&self, name: &str, model: Model, more: &str) -> String {
        let provider = self.simulator.url("openai-videos");
        let film = format!(
            "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"{provider}\"\napi_key = \"sk-simulated-0123456789\"\n\
             [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
             routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n"
        );
        let film = match model {
            Model::Hosted => film,
            Model::Full => film.replace("\"sora-2\" }", "\"sora-2\", max_running = 1 }"),
            Model::Other => String::new(),
        };
        let text = format!(
            "listen = \"127.0.0.1:0\"\ndatabase = \"{}\"\nlog = \"error\"\nmax_connections = 16000\nmax_connections_per_peer = 8000\n{more}{film}",
            self.cluster.url()
        );
        let file = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Creates a key with these additional arguments.
    pub(crate) async fn key(&self, more: &[&str]) -> String {
        let config = self.settings("command", Model::Hosted, "");
        let data = self.folder.path().join("command");
        let words = ["keys", "create", "--name", "bench", "--config", &config];
        let limits = ["--data", data.to_str().unwrap(), "--max-running", "1000000"];
        let created = output(program(&[&words[..], &limits, more].concat())).await;
        assert!(created.status.success(), "{created:?}");
        String::from_utf8(created.stdout).unwrap().trim().to_owned()
    }

    /// A gateway with more lines of settings.
    pub(crate) async fn gateway(&self, name: &str, model: Model, more: &str) -> Gateway {
        let config = self.settings(name, model, more);
        let data = self.folder.path().join(name);
        let data = data.to_str().unwrap();
        let words = ["serve", "--config", &config, "--data", data];
        let process = Process::start(&mut program(&words));
        let base = eventually("a gateway starts", async || process.base()).await;
        let address = base.trim_start_matches("http://").parse().unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Gateway {
            process,
            address,
            base,
            http,
            key: self.key.clone(),
        }
    }

    /// The number of statements that the server has run so far.
    pub(crate) async fn statements(&self) -> i64 {
        let url = self.cluster.url();
        let ask = move || -> i64 {
            let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
            let sql = "SELECT CAST(SUM(calls) AS BIGINT) FROM pg_stat_statements";
            client.query_one(sql, &[]).unwrap().get(0)
        };
        // The driver runs a runtime of its own, which may not start on a thread of ours.
        let ask = move || std::thread::spawn(ask).join().unwrap();
        tokio::task::spawn_blocking(ask).await.unwrap()
    }
}

pub(crate) struct Gateway {
    process: Process,
    base: String,
    pub(crate) address: SocketAddr,
    http: reqwest::Client,
    key: String,
}

impl Gateway {
    /// Its memory, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident_memory_of(&self.process.id().to_string())
    }

    /// Its CPU time.
    pub(crate) fn cpu_time(&self) -> Duration {
        cpu_time_of(&self.process.id().to_string())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> String {
        let request = self.http.post(format!("{}{path}", self.base)).json(body);
        let answer = request.bearer_auth(&self.key).send().await.unwrap();
        let task = answer.headers().get("x-task-id").cloned();
        let status = answer.status();
        assert!(status.is_success(), "{}", answer.text().await.unwrap());
        task.map_or(String::new(), |task| task.to_str().unwrap().to_owned())
    }

    /// Orders this many films, 16 at a time; returns their tasks.
    pub(crate) async fn order(&self, count: usize) -> Vec<String> {
        let mut tasks = Vec::new();
        while tasks.len() < count {
            let orders = (0..16.min(count - tasks.len())).map(|number| {
                let prompt = format!("lake {}-{number}", tasks.len());
                let body = json!({"model": "film", "prompt": prompt, "seconds": "4"});
                async move { self.post("/v1/videos", &body).await }
            });
            tasks.extend(futures_util::future::join_all(orders).await);
        }
        tasks
    }

    /// Opens a stream of a task and waits for its first event.
    pub(crate) fn stream(&self, task: &str) -> impl Future<Output = Stream> + Send + use<> {
        let request = self
            .http
            .get(format!("{}/v1/tasks/{task}/events", self.base));
        Stream::open(request.bearer_auth(&self.key))
    }

    /// Opens the stream of a new chat and waits for its first chunk.
    pub(crate) fn chat(
        &self,
        model: &str,
        prompt: &str,
    ) -> impl Future<Output = Stream> + Send + use<> {
        let message = json!({"role": "user", "content": prompt});
        let body = json!({"model": model, "stream": true, "messages": [message]});
        let request = self.http.post(format!("{}/v1/chat/completions", self.base));
        Stream::open(request.bearer_auth(&self.key).json(&body))
    }

    /// Sends requests as fast as it can for this long; returns how many were accepted.
    pub(crate) async fn ask_for(&self, time: Duration, key: &str) -> usize {
        let (begun, mut passed) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let request = self.http.get(format!("{}/v1/models", self.base));
            let answer = request.bearer_auth(key).send().await.unwrap();
            if answer.status() == 200 {
                passed += 1;
            } else {
                assert_eq!(answer.status(), 429);
                // Without a pause the refusals would take all of the CPU time.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            answer.bytes().await.unwrap();
        }
        passed
    }
}

pub(crate) struct Stream(reqwest::Response);

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut stream = Self(response);
        stream.until("data").await;
        stream
    }

    /// Waits until the stream contains `word`; returns when it did.
    pub(crate) async fn until(&mut self, word: &str) -> Instant {
        let mut received = Vec::new();
        loop {
            let chunk = self
                .0
                .chunk()
                .await
                .unwrap()
                .expect("a stream that goes on");
            received.extend_from_slice(&chunk);
            if received.windows(word.len()).any(|it| it == word.as_bytes()) {
                return Instant::now();
            }
        }
    }
}
