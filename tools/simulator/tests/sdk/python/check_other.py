"""Like check.py, for other versions of official SDKs, which send other requests:
OpenAI's sent JSON before it sent forms; Google's has moved to other interfaces.
"""

import base64

import openai
from common import DESCRIPTION, HTTPS, KEY, PICTURE, PROMPT, Check, main
from google import genai
from google.oauth2.credentials import Credentials


class OpenAI(Check):
    sdk = "openai"
    provider = "openai-videos"

    def setUp(self):
        super().setUp()
        self.videos = openai.OpenAI(base_url=self.base, api_key=KEY).videos

    def finish(self, **options):
        video = self.videos.create_and_poll(
            model="sora-2", prompt=PROMPT, seconds="4", size="1280x720", poll_interval_ms=50, **options
        )
        self.assertEqual((video.status, video.seconds), ("completed", "4"))
        self.assert_video(self.videos.download_content(video.id).read())

    def test_text_as_json(self):
        self.finish()

    def test_picture(self):
        self.finish(input_reference=("picture.png", PICTURE, "image/png"))

    def test_cancel_as_json(self):
        video = self.videos.create(model="sora-2", prompt=PROMPT, seconds="4", size="1280x720")
        self.assertTrue(self.videos.delete(video.id).deleted)


class Vertex(Check):
    sdk = "google-genai"
    provider = "gemini-veo"
    also = "vertex "

    def finish(self, **pictures):
        client = genai.Client(
            vertexai=True,
            project="simulated",
            location="europe-west4",
            # The token that the simulator grants to a service account.
            credentials=Credentials("ya29.simulated"),
            http_options={"base_url": self.base},
        )
        operation = client.models.generate_videos(
            model="veo-3.1-generate-001",
            prompt=PROMPT,
            config={
                "number_of_videos": 1,
                "duration_seconds": 8,
                "aspect_ratio": "16:9",
                "resolution": "720p",
                "generate_audio": True,
            },
            **pictures,
        )
        done = self.wait(lambda: client.operations.get(operation), lambda found: found.done)
        self.assert_video(done.response.generated_videos[0].video.video_bytes)

    def test_text(self):
        self.finish()

    def test_picture(self):
        self.finish(image=genai.types.Image(image_bytes=PICTURE, mime_type="image/png"))


class Interactions(Check):
    sdk = "google-genai"
    provider = "gemini-veo"
    also = "interactions "
    simulator = HTTPS

    def setUp(self):
        super().setUp()
        self.client = genai.Client(api_key=KEY, http_options={"base_url": self.base})

    def start(self, task="text_to_video", *pictures):
        return self.client.interactions.create(
            model="gemini-omni-1.2-flash",
            input=[{"type": "user_input", "content": [{"type": "text", "text": PROMPT}, *pictures]}],
            response_modalities=["video"],
            response_format={
                "type": "video",
                "aspect_ratio": "16:9",
                "resolution": "720p",
                "duration": "8s",
                "delivery": "uri",
            },
            generation_config={"video_config": {"task": task}},
            background=True,
        )

    def finish(self, *order):
        job = self.start(*order)
        done = self.wait(lambda: self.client.interactions.get(job.id), lambda found: found.status == "completed")
        video = done.steps[0].content[0]
        self.assert_video(self.client.files.download(file=video.uri))

    def test_text(self):
        self.finish()

    def test_picture(self):
        data = base64.b64encode(PICTURE).decode()
        self.finish("image_to_video", {"type": "image", "data": data, "mime_type": "image/png"})

    def test_song(self):
        made = self.client.interactions.create(model="lyria-3.5", input=DESCRIPTION)
        parts = [part for step in made.steps for part in step.content]
        sound = next(part for part in parts if part.type == "audio")
        self.assert_audio(base64.b64decode(sound.data))

    def test_cancel(self):
        self.assertEqual(self.client.interactions.cancel(self.start().id).status, "cancelled")


if __name__ == "__main__":
    main()
