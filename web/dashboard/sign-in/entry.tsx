/** The frame of the pages for people who are not signed in. */
import type { ComponentChildren } from "preact";
import { isTestOnly, page } from "../frame/page-data.ts";
import { say } from "../frame/texts.ts";

export function Entry({ children }: { children: ComponentChildren }) {
  return (
    <main class="entry">
      <div class="card">
        <p class="brand">
          <span class="mark" aria-hidden="true">
            $
          </span>
          {page.serviceName}
        </p>
        {children}
      </div>
      {isTestOnly && <p class="muted">{say("Test network: USDC here has no value.")}</p>}
    </main>
  );
}
