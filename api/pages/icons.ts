/** Icons for a page's states; decorative, since the text next to them says the same. */
import type { Html } from "./html.ts";

const icon = (name: string, path: string): Html => ({
  html: `<svg class="icon ${name}" viewBox="0 0 48 48" aria-hidden="true"><circle cx="24" cy="24" r="24"/><path d="${path}"/></svg>`,
});

export const ICONS = {
  ok: icon("ok", "M14.5 24.5l6.5 6.5 12.5-13.5"),
  wait: icon("wait", "M24 13.5V24l7 4.5"),
  off: icon("off", "M17 17l14 14M31 17L17 31"),
  back: icon("back", "M21 15l-8 8 8 8M13.5 23H27a7 7 0 0 1 0 14"),
  ask: icon("ask", "M18.5 19.5a5.5 5.5 0 1 1 8 4.9c-1.6.9-2.5 1.8-2.5 3.6M24 33.5v.5"),
} as const;
