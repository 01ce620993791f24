/** A merchant's colour as pages use it: darkened for light mode and lightened for dark mode until text in it and on it has enough contrast. */

export const COLOR = /^#[0-9a-f]{6}$/;

/** The papers it stands on, those of web/design/tokens.css. */
const LIGHT = { surface: "#ffffff", bg: "#f5f6f8", ink: "#ffffff", towards: "#000000" };
const DARK = { surface: "#13161d", bg: "#0b0d12", ink: "#0b0d12", towards: "#ffffff" };
/** WCAG 2.2, 1.4.3. */
const CONTRAST_MIN = 4.5;
/** Parts of the colour in the ground of an avatar, and of black or white in a button under the pointer. */
const SOFT_PART = 0.1;
const HOVER_PART = 0.15;
const STEP = 0.02;

export type PageColors = { accent: string; hover: string; soft: string; ink: string };

/** `color`: "#rrggbb". A colour that is readable already is left as it is. */
export function pageColors(color: string, scheme: "light" | "dark"): PageColors {
  const { surface, bg, ink, towards } = scheme === "light" ? LIGHT : DARK;
  for (let part = 0; ; part += STEP) {
    const accent = mix(color, towards, Math.min(part, 1));
    const soft = mix(surface, accent, SOFT_PART);
    const hover = mix(accent, towards, HOVER_PART);
    const isReadable =
      [surface, bg, soft, ink].every((paper) => contrast(accent, paper) >= CONTRAST_MIN) &&
      contrast(hover, ink) >= CONTRAST_MIN;
    // black on light and white on dark always are
    if (isReadable || part >= 1) return { accent, hover, soft, ink };
  }
}

/** WCAG 2.2: from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = channels(color)
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function mix(one: string, other: string, partOfOther: number): string {
  const others = channels(other);
  const mixed = channels(one).map((value, index) => {
    return Math.round(value + ((others[index] ?? 0) - value) * partOfOther);
  });
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function channels(color: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));
}
