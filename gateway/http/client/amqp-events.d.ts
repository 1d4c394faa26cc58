export function sleep(ms: number, signal: AbortSignal): Promise<void>;
export function jitter(ms: number): number;
export class EventStreamParser {
    /**
     * @param {{ onevent: (event: { type: string, data: string, id: string }) => void,
     *   oncursor: (id: string) => void, onretry: (ms: number) => void }} handlers
     */
    constructor({ onevent, oncursor, onretry }: {
        onevent: (event: {
            type: string;
            data: string;
            id: string;
        }) => void;
        oncursor: (id: string) => void;
        onretry: (ms: number) => void;
    });
    onevent: (event: {
        type: string;
        data: string;
        id: string;
    }) => void;
    oncursor: (id: string) => void;
    onretry: (ms: number) => void;
    decoder: TextDecoder;
    rest: string;
    afterReturn: boolean;
    id: string;
    type: string;
    data: string;
    sawId: boolean;
    clear(): void;
    /** @param {Uint8Array | undefined} octets */
    push(octets: Uint8Array | undefined): void;
    /** @param {string} line */
    line(line: string): void;
    dispatch(): void;
}
export class AmqpEvents extends EventTarget {
    /**
     * @param {string | URL} url
     * @param {Options} [options]
     */
    constructor(url: string | URL, options?: Options);
    get url(): string;
    get lastEventId(): string;
    get role(): string;
    get closed(): boolean;
    close(): void;
    #private;
}
/**
 * a cursor has no data
 */
export type Told = {
    type?: string;
    data?: string;
    id: string;
};
export type Failure = {
    status: number;
    problem?: any;
    final: boolean;
};
/**
 * see above
 */
export type Options = {
    token?: (() => Promise<string>) | undefined;
    ticket?: (() => Promise<string>) | undefined;
    headers?: Record<string, string> | undefined;
    transport?: "fetch" | "eventsource" | undefined;
    credentials?: RequestCredentials | undefined;
    lastEventId?: string | undefined;
    share?: boolean | undefined;
    name?: string | undefined;
    /**
     * names of events that `event=` gives, with "eventsource"
     */
    types?: string[] | undefined;
};
