"""Older versions of official SDKs, which speak otherwise than the newest, as
check.py: OpenAI's sent JSON before it sent forms.
"""

import openai

from common import KEY, PICTURE, PROMPT, Check, main


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


if __name__ == "__main__":
    main()
