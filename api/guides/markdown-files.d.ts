declare module "*.md" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: how a text module is imported
  export default text;
}
