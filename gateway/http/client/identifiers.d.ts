/** A new identifier that nobody else has. */
export function newId(): string;
