"""Official SDKs, unchanged, against the simulator: each completes an order.

SIMULATOR_URL and SIMULATOR_TLS_URL say where it is; what the SDKs sent goes into
the file that is named as argument.
"""

import io
import os
import tempfile

import fal_client
import openai
import replicate

from common import (
    KEY,
    LARGE_PICTURE,
    PICTURE,
    PICTURE_DATA,
    PROMPT,
    SONG_DATA,
    Check,
    Simulator,
    fetch,
    main,
)


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

    def test_stems(self):
        prediction = self.client.predictions.create(
            version="25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953",
            input={"audio": SONG_DATA, "model_name": "htdemucs_6s", "output_format": "flac"},
        )
        prediction.wait()
        for stem in ("vocals", "drums", "bass", "guitar", "piano", "other"):
            self.assert_audio(fetch(prediction.output[stem]))


class Fal(Check):
    sdk = "fal_client"
    provider = "fal"
    # This SDK speaks https only.
    simulator = Simulator(os.environ["SIMULATOR_TLS_URL"])
    veo = {"prompt": PROMPT, "duration": "8s", "resolution": "720p", "aspect_ratio": "16:9"}

    def setUp(self):
        super().setUp()
        # The address for uploads cannot be said in any other way.
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


if __name__ == "__main__":
    main()
