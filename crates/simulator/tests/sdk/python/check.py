"""Official SDKs, unchanged, against the simulator."""

import openai

from common import KEY, PICTURE, PROMPT, Check, main


class OpenAI(Check):
    provider = "openai-videos"

    def client(self):
        return openai.OpenAI(base_url=self.base, api_key=KEY)

    def finish(self, **options):
        client = self.client()
        video = client.videos.create_and_poll(
            model="sora-2", prompt=PROMPT, seconds="4", size="1280x720", poll_interval_ms=50, **options
        )
        self.assertEqual((video.status, video.seconds), ("completed", "4"))
        self.assert_video(client.videos.download_content(video.id).read())
        return video

    def test_text(self):
        self.finish()

    def test_picture(self):
        self.finish(input_reference=("picture.png", PICTURE, "image/png"))

    def test_cancel(self):
        client = self.client()
        video = client.videos.create(model="sora-2", prompt=PROMPT, seconds="4", size="1280x720")
        self.assertTrue(client.videos.delete(video.id).deleted)


if __name__ == "__main__":
    main()
