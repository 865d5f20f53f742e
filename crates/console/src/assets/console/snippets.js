// Code for the request of a form, in four languages: it sends the request and waits for the result. Independent of the
// views. A chosen file is `{ file }` in the body, and the code reads it. The `Idempotency-Key` is a fixed text: with a
// generated key, each run would be another paid order.

/** A file in a body, by its name. @typedef {{file: string, type: string}} Chosen */
/**
 * @typedef {object} CodeRequest
 * @property {string} origin
 * @property {string} intent
 * @property {string} path
 * @property {Record<string, any>} body
 * @property {string} [upload]
 * @property {string} [uploadPath]
 */

/** The comment above the key. */
const ADVICE = "Running this again does not create another task. To create another, change the key.";

/** @param {CodeRequest} request */
export function curl({ origin, intent, path, body, upload, uploadPath }) {
  const { text, files } = withPlaceholders(body);
  const source = JSON.stringify(JSON.parse(text), null, 2);
  const head = `-H "Authorization: Bearer $MEDIAGATE_KEY"`;
  const start = upload
    ? `CLIP=$(curl -fsS ${origin}${uploadPath} ${head} \\
  -H "Idempotency-Key: $KEY-song" -F file=@${shell(upload)} | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
`
    : "";
  const key = `# ${ADVICE}\nKEY=${intent}\n`;
  const call = `curl -sS ${origin}${path} \\
  ${head} \\
  -H "Content-Type: application/json" \\
  -H "Idempotency-Key: $KEY" \\
`;
  if (!files.length && !upload) return `${key}${call}  -d ${shell(source)}`;
  // The shell expands the files in the unquoted heredoc; everything else is escaped.
  const escaped = source.replace(/[\\$`]/g, "\\$&");
  const filled = files.reduce(
    (text, chosen, index) =>
      text.replace(`@@FILE${index}@@`, `data:${chosen.type};base64,$(base64 < ${shell(chosen.file)} | tr -d '\\n')`),
    escaped,
  );
  return `${key}${start}${call}  -d @- <<END\n${upload ? filled.replace("@@CLIP@@", "$CLIP") : filled}\nEND`;
}

/** @param {CodeRequest} request */
export function python({ origin, intent, path, body, upload, uploadPath }) {
  const value = literal(
    body,
    { true: "True", false: "False", null: "None" },
    (chosen) => `data_url(${JSON.stringify(chosen.file)}, ${JSON.stringify(chosen.type)})`,
    upload ? 'clip["id"]' : "",
  );
  const hasFiles = withPlaceholders(body).files.length > 0;
  return `import ${hasFiles ? "base64, " : ""}os
import requests

gateway = ${JSON.stringify(origin)}
auth = {"Authorization": f"Bearer {os.environ['MEDIAGATE_KEY']}"}
# ${ADVICE}
key = ${JSON.stringify(intent)}
${
  hasFiles
    ? `
def data_url(name, kind):
    with open(name, "rb") as file:
        return f"data:{kind};base64,{base64.b64encode(file.read()).decode()}"
`
    : ""
}${
    upload
      ? `
with open(${JSON.stringify(upload)}, "rb") as song:
    clip = requests.post(
        gateway + ${JSON.stringify(uploadPath)},
        headers=auth | {"Idempotency-Key": key + "-song"},
        files={"file": song},
    )
clip.raise_for_status()
clip = clip.json()
`
      : ""
  }
made = requests.post(gateway + ${JSON.stringify(path)},
    headers=auth | {"Idempotency-Key": key},
    json=${indent(value, 4)})
made.raise_for_status()

task = requests.get(f"{gateway}/v1/tasks/{made.headers['x-task-id']}", headers=auth).json()
while task["status"] in ("queued", "running"):
    task = requests.get(f"{gateway}/v1/tasks/{task['id']}?wait=60", headers=auth).json()
print(task["output"] or task["error"])`;
}

/** @param {CodeRequest} request */
export function typescript({ origin, intent, path, body, upload, uploadPath }) {
  const value = literal(
    body,
    {},
    (chosen) => `await dataUrl(${JSON.stringify(chosen.file)}, ${JSON.stringify(chosen.type)})`,
    upload ? "clip.id" : "",
  );
  const hasFiles = withPlaceholders(body).files.length > 0;
  const readFile = hasFiles || upload ? 'import { readFile } from "node:fs/promises";\n\n' : "";
  return `${readFile}const gateway = ${JSON.stringify(origin)};
const auth = { Authorization: \`Bearer \${process.env.MEDIAGATE_KEY}\` };
// ${ADVICE}
const key = ${JSON.stringify(intent)};
${
  hasFiles
    ? `const dataUrl = async (name: string, kind: string) =>
  \`data:\${kind};base64,\${(await readFile(name)).toString("base64")}\`;
`
    : ""
}${
    upload
      ? `
const song = new FormData();
song.append("file", new Blob([await readFile(${JSON.stringify(upload)})]), ${JSON.stringify(upload)});
const uploaded = await fetch(gateway + ${JSON.stringify(uploadPath)}, {
  method: "POST",
  headers: { ...auth, "Idempotency-Key": \`\${key}-song\` },
  body: song,
});
if (!uploaded.ok) throw new Error(await uploaded.text());
const clip = await uploaded.json();
`
      : ""
  }
const made = await fetch(gateway + ${JSON.stringify(path)}, {
  method: "POST",
  headers: { ...auth, "Content-Type": "application/json", "Idempotency-Key": key },
  body: JSON.stringify(${indent(value, 2)}),
});
if (!made.ok) throw new Error(await made.text());

const id = made.headers.get("x-task-id");
let task;
do {
  task = await (await fetch(\`\${gateway}/v1/tasks/\${id}?wait=60\`, { headers: auth })).json();
} while (["queued", "running"].includes(task.status));
console.log(task.output ?? task.error);`;
}

/** @param {CodeRequest} request */
export function go({ origin, intent, path, body, upload, uploadPath }) {
  const value = goLiteral(body, upload ? 'clip["id"]' : "");
  const hasFiles = withPlaceholders(body).files.length > 0;
  const imports = [
    "bytes",
    "encoding/json",
    "fmt",
    "io",
    "log",
    "net/http",
    "os",
    ...(hasFiles ? ["encoding/base64"] : []),
    ...(upload ? ["mime/multipart"] : []),
  ].sort();
  return `package main

import (
${imports.map((name) => `\t"${name}"`).join("\n")}
)

const gateway = ${JSON.stringify(origin)}

// ${ADVICE}
const key = ${JSON.stringify(intent)}

// call returns the result and the id of its task.
func call(method, path, kind, intent string, body io.Reader) (map[string]any, string) {
	request, err := http.NewRequest(method, gateway+path, body)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("MEDIAGATE_KEY"))
	if intent != "" {
		request.Header.Set("Idempotency-Key", intent)
	}
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	var result map[string]any
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil || response.StatusCode != 200 {
		log.Fatal(response.Status, result, err)
	}
	return result, response.Header.Get("x-task-id")
}
${
  hasFiles
    ? `
func dataURL(name, kind string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		log.Fatal(err)
	}
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(content)
}
`
    : ""
}
func main() {
${
  upload
    ? `	song, err := os.ReadFile(${JSON.stringify(upload)})
	if err != nil {
		log.Fatal(err)
	}
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	part, _ := parts.CreateFormFile("file", ${JSON.stringify(upload)})
	part.Write(song)
	parts.Close()
	clip, _ := call("POST", ${JSON.stringify(uploadPath)}, parts.FormDataContentType(), key+"-song", &form)
`
    : ""
}	body, _ := json.Marshal(${indent(value, 0, "\t")})
	_, id := call("POST", ${JSON.stringify(path)}, "application/json", key, bytes.NewReader(body))
	task, _ := call("GET", "/v1/tasks/"+id, "", "", nil)
	for task["status"] == "queued" || task["status"] == "running" {
		task, _ = call("GET", "/v1/tasks/"+id+"?wait=60", "", "", nil)
	}
	fmt.Println(task["output"], task["error"])
}`;
}

/** The body as JSON with a placeholder for each file, and the files in order. */
function withPlaceholders(/** @type {any} */ body) {
  /** @type {Chosen[]} */
  const files = [];
  const text = JSON.stringify(body, (_, value) => {
    if (!value || typeof value !== "object" || !("file" in value)) return value;
    files.push(value);
    return `@@FILE${files.length - 1}@@`;
  });
  return { text, files };
}

/**
 * @param {any} value
 * @param {Record<string, string>} words
 * @param {(chosen: Chosen) => string} file
 * @param {string} clip
 */
function literal(value, words, file, clip) {
  const { text, files } = withPlaceholders(value);
  return JSON.stringify(JSON.parse(text), null, 2)
    .replace(/"@@FILE(\d+)@@"/g, (_, index) => file(files[Number(index)]))
    .replace('"@@CLIP@@"', clip)
    .replace(/: (true|false|null)\b(?=,?$)/gm, (match, word) => (words[word] ? `: ${words[word]}` : match));
}

/** @param {any} value @param {string} clip @param {string} [pad] @returns {string} */
function goLiteral(value, clip, pad = "") {
  if (value === null) return "nil";
  if (Array.isArray(value)) return `[]any{${value.map((item) => goLiteral(item, clip, pad)).join(", ")}}`;
  if (value === "@@CLIP@@") return clip;
  if (typeof value !== "object") return JSON.stringify(value);
  if ("file" in value) return `dataURL(${JSON.stringify(value.file)}, ${JSON.stringify(value.type)})`;
  const lines = Object.entries(value).map(
    ([name, item]) => `${pad}\t${JSON.stringify(name)}: ${goLiteral(item, clip, `${pad}\t`)},`,
  );
  return `map[string]any{\n${lines.join("\n")}\n${pad}}`;
}

/** @param {string} text @param {number} width @param {string} [pad] */
function indent(text, width, pad = " ".repeat(width)) {
  return text.split("\n").join(`\n${pad}`);
}

/** One argument for a POSIX shell. @param {string} text */
function shell(text) {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
