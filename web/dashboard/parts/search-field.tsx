/** A search that runs when typing pauses, or immediately on Enter. */
import { useEffect, useRef, useState } from "preact/hooks";

const PAUSE_MS = 350;

type Props = { label: string; value: string; onSearch: (text: string) => void };

export function SearchField({ label, value, onSearch }: Props) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (wanted: string) => {
    clearTimeout(timer.current);
    if (wanted.trim() !== value) onSearch(wanted.trim());
  };
  return (
    <search class="search">
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        maxLength={100}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          // it may be inside a form that does something else
          event.preventDefault();
          search(text);
        }}
        onInput={(event) => {
          const typed = event.currentTarget.value;
          setText(typed);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => search(typed), PAUSE_MS);
        }}
      />
    </search>
  );
}
