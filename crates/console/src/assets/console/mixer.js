// Plays several recordings in sync. Every source starts at the same time of the audio hardware's clock, so they stay in
// sync to the sample. Independent of the views.

const START_AFTER_S = 0.06;
const FADE_S = 0.015;
const BARS = 480;

/** @typedef {{id: string, name: string, blob: Blob, buffer: AudioBuffer, peaks: number[]}} Track */

/**
 * Fetches and decodes recordings; the files are kept for downloads.
 * @param {{id: string, name: string, url: string}[]} sources
 * @param {AbortSignal} signal
 * @returns {Promise<Track[]>}
 */
export async function loadTracks(sources, signal) {
  // Needs no audio device, decodes at the usual sample rate, and may be created before the first click.
  const decoder = new OfflineAudioContext(2, 1, 48_000);
  const tracks = [];
  for (const { id, name, url } of sources) {
    const response = await fetch(url, { signal });
    if (!response.ok) throw new Error(`“${name}” could not be downloaded (${response.status}).`);
    const blob = await response.blob();
    const buffer = await decoder.decodeAudioData(await blob.arrayBuffer());
    tracks.push({ id, name, blob, buffer, peaks: peaks(buffer) });
  }
  // The loudest recording fills the height; the others are drawn in proportion.
  const loudest = Math.max(...tracks.flatMap((track) => track.peaks)) || 1;
  for (const track of tracks) track.peaks = track.peaks.map((peak) => peak / loudest);
  return tracks;
}

/** The loudest sample of each part, 0 to 1. @param {AudioBuffer} buffer */
function peaks(buffer) {
  const samples = buffer.getChannelData(0);
  const width = Math.max(1, Math.floor(samples.length / BARS));
  const result = [];
  for (let start = 0; start < samples.length; start += width) {
    let peak = 0;
    for (let index = start; index < Math.min(start + width, samples.length); index += 1)
      peak = Math.max(peak, Math.abs(samples[index]));
    result.push(Math.min(1, peak));
  }
  return result;
}

export class Mixer {
  /** @param {Track[]} tracks @param {() => void} changed called when it starts, stops or ends */
  constructor(tracks, changed) {
    this.tracks = tracks;
    this.changed = changed;
    this.seconds = Math.max(0, ...tracks.map((track) => track.buffer.duration));
    this.from = 0;
    /** @type {number | undefined} The time of the audio clock at which `from` is played. */
    this.startedAt = undefined;
    /** @type {AudioBufferSourceNode[]} */
    this.sources = [];
    /** @type {Map<string, number>} */
    this.levels = new Map();
    /** @type {Map<string, GainNode>} */
    this.gains = new Map();
    /** @type {AudioContext | undefined} Created at the first click: browsers allow no sound before it. */
    this.context = undefined;
  }

  get isPlaying() {
    return this.startedAt !== undefined;
  }

  get position() {
    if (this.startedAt === undefined || !this.context) return this.from;
    return Math.min(this.seconds, this.from + Math.max(0, this.context.currentTime - this.startedAt));
  }

  async play() {
    if (this.isPlaying) return;
    const context = (this.context ||= new AudioContext());
    await context.resume();
    if (this.from >= this.seconds) this.from = 0;
    const startTime = context.currentTime + START_AFTER_S;
    this.sources = this.tracks.map((track) => {
      const source = context.createBufferSource();
      source.buffer = track.buffer;
      source.connect(this.gain(track.id));
      source.start(startTime, this.from);
      return source;
    });
    this.startedAt = startTime;
    const longest = this.sources[this.tracks.findIndex((track) => track.buffer.duration === this.seconds)];
    longest.onended = () => this.sources.includes(longest) && this.pause(0);
    this.changed();
  }

  /** @param {number} [to] the new position; by default the current one */
  pause(to = this.position) {
    const sources = this.sources;
    this.sources = [];
    this.from = to;
    this.startedAt = undefined;
    for (const source of sources) source.stop();
    this.changed();
  }

  /** @param {number} seconds */
  async seek(seconds) {
    const wasPlaying = this.isPlaying;
    this.pause(Math.max(0, Math.min(seconds, this.seconds)));
    if (wasPlaying) await this.play();
  }

  /** @param {string} id @param {number} level 0 to 1 */
  setLevel(id, level) {
    this.levels.set(id, level);
    const gain = this.gains.get(id);
    if (gain && this.context) gain.gain.setTargetAtTime(level, this.context.currentTime, FADE_S);
  }

  /** @param {string} id */
  gain(id) {
    const context = /** @type {AudioContext} */ (this.context);
    const gain = this.gains.get(id) || context.createGain();
    gain.gain.value = this.levels.get(id) ?? 1;
    gain.connect(context.destination);
    this.gains.set(id, gain);
    return gain;
  }

  close() {
    if (this.isPlaying) this.pause();
    this.context?.close();
  }
}
