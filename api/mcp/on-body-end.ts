/** `opening` followed by the same bytes; calls `onEnd` after the last one, when the source fails, or when the reader disconnects. */
export function onBodyEnd(
  source: ReadableStream<Uint8Array>,
  { onEnd, opening }: { onEnd: () => void; opening?: Uint8Array | undefined },
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (opening) controller.enqueue(opening);
    },
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        onEnd();
        throw error;
      }
      onEnd();
    },
    async cancel(reason) {
      onEnd();
      await reader.cancel(reason);
    },
  });
}
