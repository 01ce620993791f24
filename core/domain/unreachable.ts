/** For the default case of an exhaustive switch: a member of the union without a case does not compile. Throws for a value that no type admits. */
export function unreachable(value: never): never {
  throw new Error(`no case for ${JSON.stringify(value)}`);
}
