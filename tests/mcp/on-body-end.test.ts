/** The body of an answer tells when it is over, however it ends: the place of its call is free again. */
import { expect, test } from "bun:test";
import { onBodyEnd } from "../../api/mcp/on-body-end.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function bodyOf(source: ReadableStream<Uint8Array>) {
  let ends = 0;
  const onEnd = () => {
    ends += 1;
  };
  const body = onBodyEnd(source, { onEnd, opening: bytes("first ") });
  return { body, ends: () => ends };
}

test("a complete body arrives after its opening, and ends once", async () => {
  const { body, ends } = bodyOf(
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes("second"));
        controller.close();
      },
    }),
  );
  expect(ends()).toBe(0);
  expect(await new Response(body).text()).toBe("first second");
  expect(ends()).toBe(1);
});

test("error: a body whose source fails ends as well, and its reader gets the error", async () => {
  const { body, ends } = bodyOf(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error("the source failed"));
      },
    }),
  );
  const reader = body.getReader();
  expect((await reader.read()).value).toEqual(bytes("first "));
  await expect(reader.read()).rejects.toThrow("the source failed");
  expect(ends()).toBe(1);
});

test("a body whose reader has disconnected ends, and its source is cancelled", async () => {
  let reason: unknown;
  const { body, ends } = bodyOf(
    new ReadableStream<Uint8Array>({
      cancel(given) {
        reason = given;
      },
    }),
  );
  await body.cancel("gone");
  expect(reason).toBe("gone");
  expect(ends()).toBe(1);
});
