/** The methods that a path supports, for 405 and its `Allow` header. Used only when no route matched. */

export type RouteTable = readonly { method: string; path: string }[];

/** Methods of the routes whose pattern fits `path`. A parameter fits one segment, `*` the rest. */
export function findAllowedMethods(routes: RouteTable, path: string): string[] {
  const segments = segmentsOf(path);
  const methods = routes
    .filter((route) => fits(segmentsOf(route.path), segments))
    .map(({ method }) => method);
  return [...new Set(methods)].sort();
}

function segmentsOf(path: string): string[] {
  return path.replace(/\/+$/, "").split("/");
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  const isOpenEnded = pattern.at(-1) === "*";
  if (isOpenEnded ? segments.length < pattern.length - 1 : segments.length !== pattern.length) return false;
  return pattern.every((part, index) => part === "*" || part.startsWith(":") || part === segments[index]);
}
