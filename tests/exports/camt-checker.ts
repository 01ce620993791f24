/**
 * Reads a camt.053.001.08 statement strictly: well-formed, only elements that the message definition has at their place, in its order, with its
 * lengths and patterns, and balances that the entries lead to. Throws on the first fault.
 */

type Node = { name: string; attributes: Record<string, string>; children: Node[]; text: string };
type Rule = {
  /** Elements in the definition's order; "?" may be missing, "*" and "+" repeat. */
  children?: readonly string[];
  pattern?: RegExp;
};
export type CamtEntry = {
  minor: bigint;
  day: string;
  kind: string;
  reference: string;
  text: string;
  about: string;
};
export type CamtFile = {
  id: string;
  currency: string;
  account: string;
  opening: bigint;
  closing: bigint;
  entries: CamtEntry[];
};

const textOf = (max: number) => new RegExp(`^[^\\p{Cc}]{1,${max}}$`, "u");
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** By the end of an element's path. */
const RULES: readonly (readonly [string, Rule])[] = [
  ["Document", { children: ["BkToCstmrStmt"] }],
  ["BkToCstmrStmt", { children: ["GrpHdr", "Stmt+"] }],
  ["GrpHdr", { children: ["MsgId", "CreDtTm"] }],
  ["MsgId", { pattern: textOf(35) }],
  ["CreDtTm", { pattern: INSTANT }],
  ["Stmt", { children: ["Id", "CreDtTm", "FrToDt?", "Acct", "Bal+", "Ntry*"] }],
  ["Stmt/Id", { pattern: textOf(35) }],
  ["FrToDt", { children: ["FrDtTm", "ToDtTm"] }],
  ["FrDtTm", { pattern: INSTANT }],
  ["ToDtTm", { pattern: INSTANT }],
  ["Acct", { children: ["Id", "Ccy?", "Nm?", "Ownr?"] }],
  ["Acct/Id", { children: ["Othr"] }],
  ["Othr", { children: ["Id"] }],
  ["Othr/Id", { pattern: textOf(34) }],
  ["Ccy", { pattern: /^[A-Z]{3}$/ }],
  ["Acct/Nm", { pattern: textOf(70) }],
  ["Ownr", { children: ["Nm?"] }],
  ["Ownr/Nm", { pattern: textOf(140) }],
  ["Bal", { children: ["Tp", "Amt", "CdtDbtInd", "Dt"] }],
  ["Tp", { children: ["CdOrPrtry"] }],
  ["CdOrPrtry", { children: ["Cd"] }],
  ["CdOrPrtry/Cd", { pattern: /^(OPBD|CLBD)$/ }],
  ["Amt", { pattern: /^(?=[\d.]{1,19}$)\d+(\.\d{1,5})?$/ }],
  ["CdtDbtInd", { pattern: /^(CRDT|DBIT)$/ }],
  ["Bal/Dt", { children: ["Dt"] }],
  ["Dt/Dt", { pattern: DAY }],
  [
    "Ntry",
    {
      children: [
        "Amt",
        "CdtDbtInd",
        "Sts",
        "BookgDt?",
        "ValDt?",
        "AcctSvcrRef?",
        "BkTxCd",
        "NtryDtls*",
        "AddtlNtryInf?",
      ],
    },
  ],
  ["Sts", { children: ["Cd"] }],
  ["Sts/Cd", { pattern: /^(BOOK|PDNG|INFO|FUTR)$/ }],
  ["BookgDt", { children: ["Dt"] }],
  ["ValDt", { children: ["Dt"] }],
  ["BookgDt/Dt", { pattern: DAY }],
  ["ValDt/Dt", { pattern: DAY }],
  ["AcctSvcrRef", { pattern: textOf(35) }],
  ["BkTxCd", { children: ["Prtry"] }],
  ["Prtry", { children: ["Cd"] }],
  ["Prtry/Cd", { pattern: textOf(35) }],
  ["NtryDtls", { children: ["TxDtls*"] }],
  ["TxDtls", { children: ["Refs?", "RltdPties?", "RmtInf?"] }],
  ["Refs", { children: ["AcctSvcrRef?", "EndToEndId?"] }],
  ["EndToEndId", { pattern: textOf(35) }],
  ["RltdPties", { children: ["Dbtr?", "Cdtr?"] }],
  ["Dbtr", { children: ["Pty"] }],
  ["Cdtr", { children: ["Pty"] }],
  ["Pty", { children: ["Nm?"] }],
  ["Pty/Nm", { pattern: textOf(140) }],
  ["RmtInf", { children: ["Ustrd*"] }],
  ["Ustrd", { pattern: textOf(140) }],
  ["AddtlNtryInf", { pattern: textOf(500) }],
];

export function checkCamt(file: string, places: number): CamtFile {
  const document = parseXml(file);
  if (document.attributes.xmlns !== "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08")
    throw new Error(`the namespace is ${document.attributes.xmlns}`);
  checkNode(document, "Document");
  const statement = child(child(document, "BkToCstmrStmt"), "Stmt");
  const account = child(statement, "Acct");
  const currency = child(account, "Ccy").text;
  const minorOf = (node: Node) => {
    const value = child(node, "Amt");
    if (value.attributes.Ccy !== currency) throw new Error(`an amount in ${value.attributes.Ccy}`);
    const [whole = "", fraction = ""] = value.text.split(".");
    if (fraction.length !== places) throw new Error(`${value.text} has not ${places} places`);
    const minor = BigInt(whole + fraction);
    return child(node, "CdtDbtInd").text === "DBIT" ? -minor : minor;
  };
  const balances = new Map(
    statement.children
      .filter(({ name }) => name === "Bal")
      .map((one) => [child(child(child(one, "Tp"), "CdOrPrtry"), "Cd").text, minorOf(one)]),
  );
  const entries = statement.children
    .filter(({ name }) => name === "Ntry")
    .map(
      (entry): CamtEntry => ({
        minor: minorOf(entry),
        day: child(child(entry, "BookgDt"), "Dt").text,
        kind: child(child(child(entry, "BkTxCd"), "Prtry"), "Cd").text,
        reference: child(entry, "AcctSvcrRef").text,
        text: child(child(child(child(entry, "NtryDtls"), "TxDtls"), "RmtInf"), "Ustrd").text,
        about: entry.children.find(({ name }) => name === "AddtlNtryInf")?.text ?? "",
      }),
    );
  const [opening, closing] = [balances.get("OPBD"), balances.get("CLBD")];
  if (opening === undefined || closing === undefined) throw new Error("a balance is missing");
  const reached = entries.reduce((sum, { minor }) => sum + minor, opening);
  if (reached !== closing)
    throw new Error(`the entries lead to ${reached}, the closing balance is ${closing}`);
  return {
    id: child(statement, "Id").text,
    currency,
    account: child(child(child(account, "Id"), "Othr"), "Id").text,
    opening,
    closing,
    entries,
  };
}

function checkNode(node: Node, path: string): void {
  const fits = (end: string) => path === end || path.endsWith(`/${end}`);
  const rule = RULES.filter(([end]) => fits(end)).toSorted(([a], [b]) => b.length - a.length)[0]?.[1];
  if (!rule) throw new Error(`${path} is not in the definition`);
  if (rule.pattern && (node.children.length > 0 || !rule.pattern.test(node.text)))
    throw new Error(`${path} must not be ${JSON.stringify(node.text)}`);
  if (!rule.children) return;
  if (node.text.trim() !== "") throw new Error(`${path} has text`);
  let at = 0;
  for (const one of rule.children) {
    const name = one.replace(/[?*+]$/, "");
    const found = at;
    while (node.children[at]?.name === name && (at === found || /[*+]$/.test(one))) at += 1;
    if (at === found && !/[?*]$/.test(one)) throw new Error(`${path} has no ${name}`);
  }
  const extra = node.children[at];
  if (extra) throw new Error(`${path}/${extra.name} is not at its place`);
  for (const each of node.children) checkNode(each, `${path}/${each.name}`);
}

function child(node: Node, name: string): Node {
  const found = node.children.find((one) => one.name === name);
  if (!found) throw new Error(`${node.name} has no ${name}`);
  return found;
}

/** Elements, attributes and text; no comments, entities of its own or processing instructions but the declaration. */
function parseXml(file: string): Node {
  const declaration = '<?xml version="1.0" encoding="UTF-8"?>';
  if (!file.startsWith(declaration)) throw new Error("the declaration is missing");
  const root: Node = { name: "", attributes: {}, children: [], text: "" };
  const open = [root];
  const token = /<(\/?)([A-Za-z]\w*)((?: \w+="[^"<&]*")*)>|([^<]+)|(<)/g;
  for (const [, slash, name = "", attributes = "", words, broken] of file
    .slice(declaration.length)
    .matchAll(token)) {
    const current = open.at(-1) ?? root;
    if (broken) throw new Error("a bare <");
    if (words !== undefined) {
      if (/&(?!(amp|lt|gt);)/.test(words)) throw new Error(`a bare & in ${words}`);
      current.text += words.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
    } else if (slash) {
      if (open.pop()?.name !== name) throw new Error(`</${name}> closes another element`);
    } else {
      const pairs = Array.from(attributes.matchAll(/(\w+)="([^"]*)"/g), ([, key = "", value = ""]) => [
        key,
        value,
      ]);
      const made = { name, attributes: Object.fromEntries(pairs), children: [], text: "" };
      current.children.push(made);
      open.push(made);
    }
  }
  const [document] = root.children;
  if (open.length !== 1 || root.children.length !== 1 || !document) throw new Error("not one whole element");
  return document;
}
