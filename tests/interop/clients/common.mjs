// What the clients' scripts of Node have in common; as common.py.
export const URL = process.env.PITH_URL, MODEL = process.env.PITH_MODEL;
export const QUESTION = "What is the weather in Paris?", WEATHER = "Sunny, 21 degrees.";
export const LONG = "one two three four five six seven eight ".repeat(400);

export function need(good, seen) {
    if (!good) throw new Error("seen: " + (JSON.stringify(seen) ?? "nothing").slice(0, 600));
}

export async function thrown(call) {
    let seen;
    try {
        seen = await call();
    } catch (e) {
        return e;
    }
    throw new Error("no error, but " + JSON.stringify(seen).slice(0, 600));
}

// Prints a line `NAME ok` or `NAME failed WHY` for each part.
export async function main(parts) {
    for (const [name, part] of Object.entries(parts)) {
        try {
            await part();
            console.log(name, "ok");
        } catch (e) {
            console.error(e);
            console.log(name, "failed", `${e.name}: ${e.message}`.replace(/\s+/g, " ").slice(0, 300));
            process.exitCode = 1;
        }
    }
}
