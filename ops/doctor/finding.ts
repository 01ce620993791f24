/** What a check found: one sentence for a person, and the command or variable that corrects it. */
export type Finding = {
  /** `fault`: the service would not work, or not safely. `advice`: it works, and something should be better. */
  readonly level: "fault" | "advice" | "good";
  readonly subject: Subject;
  readonly text: string;
};

export const SUBJECTS = [
  "configuration",
  "database",
  "chain",
  "relayer",
  "mail",
  "domain",
  "clock",
  "machine",
  "pages",
] as const;
export type Subject = (typeof SUBJECTS)[number];

export const fault = (subject: Subject, text: string): Finding => ({ level: "fault", subject, text });
export const advice = (subject: Subject, text: string): Finding => ({ level: "advice", subject, text });
export const good = (subject: Subject, text: string): Finding => ({ level: "good", subject, text });

const MARKS = { fault: "✗", advice: "!", good: "✓" } as const;

/** One line per finding, by subject, and a last line with the number of faults. */
export function presentFindings(findings: readonly Finding[]): string {
  const lines = SUBJECTS.flatMap((subject) =>
    findings
      .filter((one) => one.subject === subject)
      .map(({ level, text }) => `${MARKS[level]} ${subject.padEnd(13)} ${text}`),
  );
  const faults = findings.filter(({ level }) => level === "fault").length;
  const end =
    faults === 0
      ? "No faults found."
      : `${faults === 1 ? "1 fault. Correct it" : `${faults} faults. Correct them`} and run this command again.`;
  return [...lines, "", end].join("\n");
}
