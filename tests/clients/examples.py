"""The examples: what each has to print, and how each language runs its own."""

import dataclasses
import pathlib
import shutil

REPO = pathlib.Path(__file__).resolve().parents[2]

# name: the lines that it prints, in every language
LINES = {
    "order_timeout": ["order 1001 placed", "order 1002 placed", "order 1001 paid, nothing to close", "order 1002 closed: not paid in time"],
    "call_retry": ["call 1: 503, again later", "call 2: 503, again later", "call 3: 200, done"],
    "reminder": ["reminder set", "meeting moved, reminder moved", "reminder: meeting with Ada"],
    "import_report": ["20 rows pushed", "report: acked=20 dead=0 cancelled=0 expired=0 missing=0"],
    "checkout": ["order 1001 placed", "charge 1001", "ship 1001", "mail 1001"],
    "debounce": ["saved version 1", "saved version 2", "saved version 3", "indexing version 3"],
}
# what it gets behind its delay
ARGUMENTS = {"import_report": ["20"]}


@dataclasses.dataclass(frozen=True)
class Language:
    """`command` runs in `folder`, with the delay behind it; {snake}, {kebab}, {pascal} in it are the example's name. `build` runs once before."""

    command: list
    folder: str
    needs: list
    env: dict = dataclasses.field(default_factory=dict)
    build: list = None

    def command_for(self, example):
        words = example.split("_")
        spellings = {"{snake}": example, "{kebab}": "-".join(words), "{pascal}": "".join(map(str.capitalize, words))}
        found = list(self.command)
        for mark, spelling in spellings.items():
            found = [one.replace(mark, spelling) for one in found]
        return found

    def lacking(self):
        """The programs that are not here."""
        return [program for program in self.needs if not shutil.which(program)]


LANGUAGES = {
    "python": Language(["python3", "{snake}.py"], "examples/python", ["python3"], env={"PYTHONPATH": str(REPO / "clients" / "python")}),
    "node": Language(["node", "{kebab}.mjs"], "examples/node", ["node", "npm"],
                     build=["bash", "-c", "(cd ../../clients/node && npm install --silent --no-audit --no-fund && npm run --silent build) && npm install --silent --no-audit --no-fund"]),
    "go": Language(["go", "run", "./{snake}"], "examples/go", ["go"], build=["go", "build", "-o", "/dev/null", "./..."]),
    "java": Language(["java", "-cp", "../../clients/java/target/classes", "{pascal}.java"], "examples/java", ["java", "mvn"],
                     build=["mvn", "-q", "-B", "-f", "../../clients/java/pom.xml", "compile"]),
    "php": Language(["php", "{snake}.php"], "examples/php", ["php"]),
    "ruby": Language(["ruby", "-w", "{snake}.rb"], "examples/ruby", ["ruby"], env={"RUBYLIB": str(REPO / "clients" / "ruby" / "lib")}),
    "rust": Language(["../../clients/rust/target/debug/examples/{snake}"], "examples/rust", ["cargo"],
                     build=["cargo", "build", "--quiet", "--locked", "--examples", "--manifest-path", "../../clients/rust/Cargo.toml"]),
}
