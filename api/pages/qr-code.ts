/** A QR code as one SVG path: dark on light even in dark mode, since many readers accept nothing else. */

import { encode } from "uqr";
import { pathOf } from "../../web/qr/path.ts";
import { type Html, html } from "./html.ts";

/** Width of the quiet zone in modules (ISO/IEC 18004 requires four). */
const QUIET_ZONE = 4;
/** Cached codes, about 5 kB each. Drawing one costs three times the rest of its page, and pages are read repeatedly by previews and reloads. */
const KEPT_MAX = 1_000;

type Drawing = { size: number; path: string };

const drawings = new Map<string, Drawing>();

export function qrCode(text: string, label: string): Html {
  const { size, path } = drawings.get(text) ?? draw(text);
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="${label}" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="#fff"/><path fill="#000" d="${path}"/></svg>`;
}

function draw(text: string): Drawing {
  const { size, data } = encode(text, { ecc: "M", border: QUIET_ZONE });
  const drawing = { size, path: pathOf(data) };
  const [oldest] = drawings.keys();
  if (drawings.size >= KEPT_MAX && oldest !== undefined) drawings.delete(oldest);
  drawings.set(text, drawing);
  return drawing;
}
