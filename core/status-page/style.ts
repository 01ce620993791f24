/** On a phone each row of a table is a card with its column names. */
export const STYLE = `
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;-webkit-text-size-adjust:100%}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem 3rem}
header{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:baseline;justify-content:space-between;margin-bottom:1rem}
h1{font-size:1.5rem;line-height:1.2;margin:0}
h2{font-size:1rem;margin:0 0 .5rem}
p{margin:0}
.muted{color:var(--muted);font-size:.875rem}
code{font:inherit;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em}
section{background:var(--surface);border-radius:.75rem;box-shadow:var(--shadow);padding:1rem 1.25rem;margin:0 0 1rem;overflow-x:auto}
.state{border-radius:.75rem;padding:.875rem 1.25rem;margin:0 0 1rem;font-weight:600}
.state.ok{background:var(--ok-soft);color:var(--ok)}
.problems{list-style:none;margin:0 0 1rem;padding:0;display:grid;gap:.5rem}
.problems li{display:flex;flex-wrap:wrap;gap:.125rem 1rem;justify-content:space-between;border-radius:.75rem;padding:.75rem 1.25rem}
.problems strong{font-weight:600;overflow-wrap:anywhere}
.problems span{font-size:.875rem}
.problems .bad{background:var(--bad-soft);color:var(--bad)}
.problems .warn{background:var(--warn-soft);color:var(--warn)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{color:var(--muted);font-size:.8125rem;font-weight:500;text-align:start;padding:.25rem .75rem .375rem 0;white-space:nowrap}
td{border-top:1px solid var(--line);padding:.5rem .75rem .5rem 0;vertical-align:top;overflow-wrap:anywhere}
th:last-child,td:last-child{padding-inline-end:0}
.number{text-align:end}
td.number{white-space:nowrap}
.number+:not(.number){padding-inline-start:1rem}
td.bad{color:var(--bad);font-weight:600}
td.warn{color:var(--warn);font-weight:600}
meter{width:6rem;vertical-align:middle}
@media (max-width:44rem){
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tbody,tr{display:block}
tr{border-top:1px solid var(--line);padding:.5rem 0}
tr:first-child{border-top:0;padding-top:0}
td,td.number,.number+td:not(.number){display:flex;justify-content:space-between;gap:1rem;border:0;padding:.125rem 0;text-align:end;white-space:normal}
td::before{content:attr(data-label);color:var(--muted);font-weight:400;text-align:start;flex:none}
td:first-child{font-weight:600}
meter{width:4rem}
}
`;
