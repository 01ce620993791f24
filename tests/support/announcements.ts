/** A node's websocket passed on unchanged, for proxies that listen in front of it. */
import type { ServerWebSocket, WebSocketHandler } from "bun";

export function passAnnouncements(nodeUrl: string): WebSocketHandler<undefined> {
  const upstreams = new Map<ServerWebSocket<undefined>, WebSocket>();
  return {
    open(socket) {
      const upstream = new WebSocket(nodeUrl.replace(/^http/, "ws"));
      upstreams.set(socket, upstream);
      upstream.onmessage = ({ data }) => void socket.send(String(data));
      upstream.onclose = () => socket.close();
    },
    message(socket, text) {
      const upstream = upstreams.get(socket);
      if (upstream?.readyState === WebSocket.OPEN) upstream.send(text);
      else upstream?.addEventListener("open", () => upstream.send(text), { once: true });
    },
    close(socket) {
      upstreams.get(socket)?.close();
      upstreams.delete(socket);
    },
  };
}
