/** Shorter ones are words, not secrets: to remove them would make an answer unreadable. */
const MIN_LENGTH = 8;

/**
 * A function that takes out of a receiver's answer what it may repeat of the request and what may be a key: custom headers, and path and
 * query of the URL (many services have their key there, and many servers answer 404 with the path).
 */
export function createRedactor(url: URL, headers: Readonly<Record<string, string>>): (text: string) => string {
  const path = `${url.pathname}${url.search}`;
  const candidates = [
    path,
    ...path.split(/[/?&=]/),
    ...url.searchParams.values(),
    ...Object.values(headers).flatMap((value) => [value, ...value.split(/\s+/)]),
  ];
  const secrets = new Set(candidates.filter((candidate) => candidate.length >= MIN_LENGTH));
  const longestFirst = [...secrets].toSorted((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((rest, secret) => rest.replaceAll(secret, "[removed]"), text);
}
