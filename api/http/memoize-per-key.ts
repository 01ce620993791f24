/** Memoises a value per key object: plugins that every feature uses are built once per app. */
export function oncePer<Key extends object, Value>(build: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, { value: Value }>();
  return (key) => {
    const known = made.get(key);
    if (known) return known.value;
    const value = build(key);
    made.set(key, { value });
    return value;
  };
}
