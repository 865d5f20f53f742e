"""Official SDKs, unchanged, against the simulator: each completes an order.

SIMULATOR_URL and SIMULATOR_TLS_URL are its addresses, FAL_RUN_HOST and
FAL_QUEUE_RUN_HOST those of its fal, and SSL_CERT_FILE is its certificate. What the
SDKs sent is written to the file that is named as the argument.
"""

import base64
import io
import tempfile
import zipfile

import byteplussdkarkruntime
import dashscope
import elevenlabs
import fal_client
import luma_agents
import lumaai
import musicai_sdk
import openai
import replicate
import runwayml
from common import (
    DESCRIPTION,
    HTTPS,
    KEY,
    LARGE_PICTURE,
    PICTURE,
    PICTURE_DATA,
    PICTURE_URL,
    PROMPT,
    SONG,
    SONG_DATA,
    Check,
    fetch,
    main,
)
from google import genai


class OpenAI(Check):
    sdk = "openai"
    provider = "openai-videos"

    def setUp(self):
        super().setUp()
        self.client = openai.OpenAI(base_url=self.base, api_key=KEY)

    def finish(self, **options):
        video = self.client.videos.create_and_poll(
            model="sora-2", prompt=PROMPT, seconds="4", size="1280x720", poll_interval_ms=50, **options
        )
        self.assertEqual((video.status, video.seconds), ("completed", "4"))
        self.assert_video(self.client.videos.download_content(video.id).read())

    def test_text(self):
        self.finish()

    def test_picture(self):
        self.finish(input_reference=("picture.png", PICTURE, "image/png"))

    def test_cancel(self):
        video = self.client.videos.create(model="sora-2", prompt=PROMPT, seconds="4", size="1280x720")
        self.assertTrue(self.client.videos.delete(video.id).deleted)

    def test_find(self):
        video = self.client.videos.create(model="sora-2", prompt=PROMPT, seconds="4", size="1280x720")
        found = self.client.videos.list(limit=100, order="desc").data[0]
        self.assertEqual((found.id, found.prompt), (video.id, PROMPT))


class Replicate(Check):
    sdk = "replicate"
    provider = "replicate"
    veo = {"prompt": PROMPT, "duration": 8, "resolution": "720p", "aspect_ratio": "16:9"}

    def setUp(self):
        super().setUp()
        self.client = replicate.Client(api_token=KEY, base_url=self.base)
        self.client.poll_interval = 0.05

    def start(self, **inputs):
        return self.client.models.predictions.create(
            "google/veo-3.1", input=self.veo | inputs, file_encoding_strategy=None
        )

    def finish(self, **inputs):
        prediction = self.start(**inputs)
        prediction.wait()
        self.assertEqual(prediction.status, "succeeded", prediction.error)
        self.assert_video(fetch(prediction.output))

    def test_text(self):
        self.finish()

    def test_picture(self):
        self.finish(image=PICTURE_DATA)

    def test_upload(self):
        picture = io.BytesIO(LARGE_PICTURE)
        picture.name = "picture.png"
        self.finish(image=picture)

    def test_cancel(self):
        prediction = self.start()
        prediction.cancel()
        self.assertEqual(prediction.status, "canceled")

    def test_find(self):
        prediction = self.start()
        found = self.client.predictions.list().results[0]
        self.assertEqual((found.id, found.input), (prediction.id, self.veo))

    def test_stems(self):
        prediction = self.client.predictions.create(
            version="25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953",
            input={"audio": SONG_DATA, "model_name": "htdemucs_6s", "output_format": "flac"},
        )
        prediction.wait()
        for stem in ("vocals", "drums", "bass", "guitar", "piano", "other"):
            self.assert_audio(fetch(prediction.output[stem]))

    def test_song(self):
        prediction = self.client.models.predictions.create(
            "stability-ai/stable-audio-2.5", input={"prompt": DESCRIPTION, "duration": 60}
        )
        prediction.wait()
        self.assert_audio(fetch(prediction.output))


class Fal(Check):
    sdk = "fal_client"
    provider = "fal"
    simulator = HTTPS
    veo = {"prompt": PROMPT, "duration": "8s", "resolution": "720p", "aspect_ratio": "16:9"}

    def setUp(self):
        super().setUp()
        # The URL for uploads cannot be set in any other way.
        fal_client.client.REST_URL = self.base
        self.client = fal_client.SyncClient(key=f"id:{KEY}")

    def finish(self, model="fal-ai/veo3.1", **inputs):
        handle = self.client.submit(model, self.veo | inputs)
        states = [type(state) for state in handle.iter_events(interval=0.05)]
        self.assertEqual((states[0], states[-1]), (fal_client.InProgress, fal_client.Completed))
        self.assert_video(fetch(handle.get()["video"]["url"]))

    def test_text(self):
        self.finish()

    def test_picture(self):
        self.finish("fal-ai/veo3.1/image-to-video", image_url=PICTURE_DATA)

    def test_upload(self):
        address = self.client.upload(LARGE_PICTURE, "image/png", "picture.png", repository="fal")
        self.finish("fal-ai/veo3.1/image-to-video", image_url=address)

    def test_cancel(self):
        self.client.submit("fal-ai/veo3.1", self.veo).cancel()

    def test_stems(self):
        handle = self.client.submit("fal-ai/demucs", {"audio_url": SONG_DATA, "model": "htdemucs_6s"})
        stems = handle.get()
        for stem in ("vocals", "drums", "bass", "guitar", "piano", "other"):
            self.assert_audio(fetch(stems[stem]["url"]))

    def test_song(self):
        order = {"prompt": DESCRIPTION, "seconds_total": 60}
        handle = self.client.submit("fal-ai/stable-audio-25/text-to-audio", order)
        self.assert_audio(fetch(handle.get()["audio"]["url"]))


class Veo(Check):
    sdk = "google-genai"
    provider = "gemini-veo"
    # The SDK recognises files only at https URLs.
    simulator = HTTPS

    def finish(self, **pictures):
        client = genai.Client(api_key=KEY, http_options={"base_url": self.base})
        end = pictures.pop("end", None)
        operation = client.models.generate_videos(
            model="veo-3.1-generate-preview",
            prompt=PROMPT,
            config={
                "number_of_videos": 1,
                "duration_seconds": 8,
                "aspect_ratio": "16:9",
                "resolution": "720p",
                "last_frame": end,
            },
            **pictures,
        )
        done = self.wait(lambda: client.operations.get(operation), lambda found: found.done)
        self.assert_video(client.files.download(file=done.response.generated_videos[0].video))

    def test_text(self):
        self.finish()

    def test_frames(self):
        frame = genai.types.Image(image_bytes=PICTURE, mime_type="image/png")
        self.finish(image=frame, end=frame)


class Runway(Check):
    sdk = "runwayml"
    provider = "runway"

    def setUp(self):
        super().setUp()
        self.client = runwayml.RunwayML(base_url=self.base, api_key=KEY)

    def start(self, picture=PICTURE_DATA):
        return self.client.image_to_video.create(
            model="gen4_turbo",
            prompt_image=[{"position": "first", "uri": picture}],
            prompt_text=PROMPT,
            ratio="1280:720",
            duration=5,
        )

    def finish(self, task):
        states = []

        def poll():
            found = self.client.tasks.retrieve(task.id)
            states.append(found.status)
            return found

        done = self.wait(poll, lambda found: found.status == "SUCCEEDED")
        self.assertEqual(states[0], "RUNNING")
        self.assert_video(fetch(done.output[0]))

    def test_text(self):
        self.finish(self.client.text_to_video.create(model="veo3.1", prompt_text=PROMPT, ratio="1280:720", duration=8))

    def test_picture(self):
        self.finish(self.start())

    def test_upload(self):
        upload = self.client.uploads.create_ephemeral(file=("picture.png", LARGE_PICTURE, "image/png"))
        self.finish(self.start(upload.uri))

    def test_cancel(self):
        self.client.tasks.delete(self.start().id)


class Luma(Check):
    sdk = "luma-agents"
    provider = "luma"

    def setUp(self):
        super().setUp()
        self.client = luma_agents.Luma(base_url=self.base, auth_token=KEY)

    def finish(self, **frames):
        job = self.client.generations.create(
            prompt=PROMPT,
            model="ray-3.2",
            type="video",
            aspect_ratio="16:9",
            video={"duration": "5s", "resolution": "720p"} | frames,
        )
        done = self.wait(lambda: self.client.generations.get(job.id), lambda found: found.state == "completed")
        self.assert_video(fetch(done.output[0].url))

    def test_text(self):
        self.finish()

    def test_frames(self):
        frame = {"data": base64.b64encode(PICTURE).decode(), "media_type": "image/png"}
        self.finish(start_frame=frame, end_frame=frame)


class DreamMachine(Check):
    sdk = "lumaai"
    provider = "luma"
    also = "dream machine "

    def setUp(self):
        super().setUp()
        self.client = lumaai.LumaAI(base_url=self.base, auth_token=KEY)

    def start(self, **more):
        return self.client.generations.video.create(
            model="ray-2", prompt=PROMPT, aspect_ratio="16:9", duration="5s", resolution="720p", **more
        )

    def finish(self, **more):
        job = self.start(**more)
        done = self.wait(lambda: self.client.generations.get(job.id), lambda found: found.state == "completed")
        self.assert_video(fetch(done.assets.video))

    def test_text(self):
        self.finish()

    def test_frames(self):
        frame = {"type": "image", "url": PICTURE_URL}
        self.finish(keyframes={"frame0": frame, "frame1": frame})

    def test_find(self):
        job = self.start()
        found = self.client.generations.list(limit=100, offset=0).generations[0]
        self.assertEqual((found.id, found.request.prompt), (job.id, PROMPT))

    def test_cancel(self):
        self.client.generations.delete(self.start().id)


class ModelArk(Check):
    sdk = "byteplus-python-sdk-v2"
    provider = "modelark"

    def setUp(self):
        super().setUp()
        self.tasks = byteplussdkarkruntime.Ark(base_url=self.base, api_key=KEY).content_generation.tasks

    def start(self, *pictures):
        return self.tasks.create(
            model="seedance-1-5-pro-251215",
            content=[{"type": "text", "text": PROMPT}, *pictures],
            ratio="16:9",
            resolution="720p",
            duration=5,
            # What our adapter derives from the key "key-of-the-order". A lost submission
            # is found by it.
            seed=698955408,
        )

    def finish(self, *pictures):
        job = self.start(*pictures)
        done = self.wait(lambda: self.tasks.get(task_id=job.id), lambda found: found.status == "succeeded")
        self.assert_video(fetch(done.content.video_url))

    def test_text(self):
        self.finish()

    def test_frames(self):
        self.finish(
            *(
                {"type": "image_url", "role": role, "image_url": {"url": PICTURE_DATA}}
                for role in ("first_frame", "last_frame")
            )
        )

    def test_cancel(self):
        self.tasks.delete(task_id=self.start().id)

    def test_find(self):
        job = self.start()
        found = self.tasks.list(page_num=1, page_size=100).items[0]
        self.assertEqual((found.id, found.seed), (job.id, 698955408))


class DashScope(Check):
    sdk = "dashscope"
    provider = "dashscope"

    def setUp(self):
        super().setUp()
        dashscope.base_http_api_url = self.base
        dashscope.api_key = KEY

    def start(self, model, **inputs):
        answer = dashscope.VideoSynthesis.async_call(model, prompt=PROMPT, duration=5, **inputs)
        self.assertEqual(answer.status_code, 200, answer.message)
        return answer

    def finish(self, model, **inputs):
        job = self.start(model, **inputs)
        done = self.wait(
            lambda: dashscope.VideoSynthesis.fetch(job), lambda found: found.output.task_status == "SUCCEEDED"
        )
        self.assert_video(fetch(done.output.video_url))

    def test_text(self):
        self.finish("wan2.6-t2v", size="1280*720")

    def test_picture(self):
        self.finish("wan2.6-i2v", img_url=PICTURE_DATA, resolution="720P")

    def test_frames(self):
        self.finish("wan2.2-kf2v-flash", first_frame_url=PICTURE_DATA, last_frame_url=PICTURE_DATA, resolution="720P")

    def test_list_of_pictures(self):
        self.finish("wan2.7-i2v", media=[{"type": "first_frame", "url": PICTURE_DATA}], resolution="720P")

    def test_cancel(self):
        answer = dashscope.VideoSynthesis.cancel(self.start("wan2.6-t2v", size="1280*720"))
        self.assertEqual(answer.status_code, 200, answer.message)


class ElevenLabs(Check):
    sdk = "elevenlabs"
    provider = "elevenlabs"

    def test_stems(self):
        client = elevenlabs.ElevenLabs(base_url=self.base, api_key=KEY)
        archive = client.music.separate_stems(
            file=("song.mp3", SONG, "audio/mpeg"),
            stem_variation_id="six_stems_v1",
            output_format="mp3_44100_128",
        )
        with zipfile.ZipFile(io.BytesIO(b"".join(archive))) as stems:
            self.assertEqual(len(stems.namelist()), 6)


class MusicAi(Check):
    sdk = "musicai_sdk"
    provider = "musicai"

    def setUp(self):
        super().setUp()
        self.client = musicai_sdk.MusicAiClient(KEY, job_monitor_interval=0.05)
        self.client.base_url = self.base

    def start(self):
        with tempfile.NamedTemporaryFile(suffix=".mp3") as song:
            song.write(SONG)
            song.flush()
            address = self.client.upload_file(song.name)
        return self.client.add_job("key-of-the-order", "stems", {"inputUrl": address})["id"]

    def test_stems(self):
        done = self.client.wait_for_job_completion(self.start())
        stems = sorted(name for name, value in done["result"].items() if value.startswith("http"))
        self.assertEqual(stems, ["bass", "drums", "other", "vocals"])
        for stem in stems:
            self.assert_audio(fetch(done["result"][stem]))

    def test_find(self):
        job = self.start()
        found = self.client.list_jobs({"workflow": "stems", "size": 100})[0]
        self.assertEqual((found["id"], found["name"]), (job, "key-of-the-order"))


if __name__ == "__main__":
    main()
