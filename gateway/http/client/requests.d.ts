/** The requests of one caller to one gateway. */
export class Requests {
    /**
     * @param {string | URL} [base]  the gateway, such as https://gateway.example; without one the
     *   page's own origin
     * @param {Access} [access]
     */
    constructor(base?: string | URL, access?: Access);
    base: string;
    retries: number;
    /** Whether another credential may be had after one was refused. */
    get renewable(): boolean;
    /**
     * The fields of a request.
     * @param {Record<string, string>} [more]
     */
    head(more?: Record<string, string>): Promise<Record<string, string>>;
    /**
     * The answer, whatever its status. Throws `UnreachableError`, and what aborted the signal.
     * @param {string} method
     * @param {string} path
     * @param {Call} [call]
     */
    fetch(method: string, path: string, { body, headers, signal }?: Call): Promise<Response>;
    /**
     * The answer to a request that was not refused. Throws `ProblemError` and `UnreachableError`.
     * @param {string} method
     * @param {string} path
     * @param {Call} [call]
     */
    send(method: string, path: string, call?: Call): Promise<Response>;
    /**
     * The JSON of the answer, `null` if it has none.
     * @param {string} method
     * @param {string} path
     * @param {Call} [call]
     * @returns {Promise<any>}
     */
    call(method: string, path: string, call?: Call): Promise<any>;
    #private;
}
export type Access = {
    /**
     * with `password`: HTTP Basic
     */
    user?: string | undefined;
    password?: string | undefined;
    /**
     * a bearer token. A function is
     * called for each request, and once more when a token is refused
     */
    token?: string | (() => string | Promise<string>) | undefined;
    /**
     * fields that every request has
     */
    headers?: Record<string, string> | undefined;
    /**
     * whether the browser adds what it has itself;
     * "same-origin" unless set
     */
    credentials?: RequestCredentials | undefined;
    /**
     * another than the global one
     */
    fetch?: typeof fetch | undefined;
    /**
     * how often a request is repeated, where that is safe; 2 unless set
     */
    retries?: number | undefined;
};
export type Call = {
    /**
     * what JSON can say, or octets: a Blob, an ArrayBuffer, a view of one
     */
    body?: any;
    headers?: Record<string, string> | undefined;
    signal?: AbortSignal | undefined;
    /**
     * whether a repetition does no harm if the first request had an
     * effect; so it is with GET and PUT, and with an `Idempotency-Key`
     */
    repeatable?: boolean | undefined;
    /**
     * another number than that of `Access`
     */
    retries?: number | undefined;
};
