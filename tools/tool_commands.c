/*
 * tool_commands.c - the table of commands: all that is said about them is made of it.
 *
 * Threads: any; nothing in it changes.
 */
#include "tools/tool.h"

#define TRIES                                                                     \
    {                                                                             \
        "--tries", "N",                                                           \
            "begin again at most so often if a running server makes checkpoints " \
            "(10)"                                                                \
    }

const struct tool_command tool_commands[] = {
    {
        "check",
        "DIRECTORY",
        tool_check,
        TOOL_BESIDE,
        "verify the newest checkpoint page by page, and the log",
        "Every page is reached exactly once or free; order, counts, births, checksums, overflow "
        "and\n"
        "long runs, the space map, both metas; and the log can be read from the checkpoint to its "
        "end.\n"
        "A line for each finding says what, in which file, at which offset.\n",
        {TRIES},
    },
    {
        "verify",
        "DIRECTORY",
        tool_verify,
        TOOL_BESIDE,
        "a quick look: metas, the checksums of all pages, the log",
        "Reads the data file once from its beginning to its end. It finds what a disk has changed, "
        "but\n"
        "not, as `check` does, a page that is whole and in the wrong place, or old.\n",
        {TRIES},
    },
    {
        "stat",
        "DIRECTORY",
        tool_stat,
        TOOL_BESIDE,
        "sizes, positions and counts; pages by kind, trees",
        "Pages by kind and how full they are, each tree with its entries and levels, free pages, "
        "both\n"
        "metas, the log's positions, the sizes of files. All pages are read (and checked) for "
        "it.\n",
        {{"--quick", NULL, "no figures that need all pages to be read"}, TRIES},
    },
    {
        "log",
        "DIRECTORY",
        tool_log,
        TOOL_BESIDE,
        "list the log's segments and what is recorded in them",
        "The segments; then the records from the newest checkpoint on, with sequence, epoch, file "
        "and\n"
        "offset, stamp, and bytes; with `--ops` every operation. A torn end (of commits that "
        "nobody was\n"
        "promised) is said and is no damage; damage is, with its place.\n",
        {{"--ops", NULL, "list operations: tree (its number), key, size of the value"},
         {"--segments", NULL, "list segments only"},
         {"--all", NULL,
          "read every segment by itself, from its header on, also those that are not needed any "
          "more"},
         TRIES},
    },
    {
        "dump",
        "DIRECTORY",
        tool_dump,
        TOOL_STOPPED,
        "write all entries as text",
        "Three forms, all of which `load` reads. `bytevalue` and `print` are those of LMDB's "
        "mdb_dump\n"
        "(several trees one after another, as by `mdb_dump -a`): a header (`VERSION=3`, "
        "`format=`,\n"
        "`database=`, `type=btree`, `HEADER=END`), then a line for each key and each value, "
        "beginning\n"
        "with a blank, then `DATA=END`. In `bytevalue` each byte is two hexadecimal digits; in "
        "`print`\n"
        "printable bytes stand as they are, others, and the backslash, as a backslash and two "
        "digits.\n"
        "`json` has an object in each line: {\"tree\": NAME, \"entries\": N} where a tree begins,\n"
        "{\"tree\": NAME, \"key\": K, \"value\": V} for each entry, {\"tree\": NAME, \"end\": "
        "true}. Bytes that\n"
        "are not UTF-8 are base64, as `tree64`, `key64`, `value64`. Entries come in the order of "
        "their keys.\n"
        "\n"
        "The log is replayed first, as by a start of the server.\n",
        {{"--tree", "NAME", "only this tree; may be given several times"},
         {"--format", "FORM", "bytevalue (usual), print, or json"},
         {"--output", "FILE", "write to a file, which must not exist, instead of standard output"},
         {"--checkpoint", NULL,
          "what the newest checkpoint holds, without the log: nothing in the directory is "
          "changed"}},
    },
    {
        "load",
        "DIRECTORY",
        tool_load,
        TOOL_STOPPED,
        "read entries from a dump into a store, which is made if it is not there",
        "Reads the forms that `dump` writes, and what mdb_dump writes (but for duplicate keys), "
        "from\n"
        "standard input or a file. Entries are put in transactions of bounded size, sorted by key "
        "within\n"
        "each. A load that is interrupted leaves whole transactions: those of the last checkpoint, "
        "or,\n"
        "with another `--durability` than `none`, all that were finished. A tree of the input "
        "that\n"
        "has entries in the store already is refused unless `--append` or `--replace` is given.\n\n"
        "Take bytevalue where there may be backslashes: `mdb_dump -p` writes one as it is, so "
        "that\n"
        "what it wrote of `\\41` and of `A` is the same.\n",
        {{"--input", "FILE", "read from a file instead of standard input"},
         {"--tree", "NAME", "put all into this tree, whatever the input calls it (one tree only)"},
         {"--append", NULL,
          "trees may have entries; keys that are there already keep their values"},
         {"--replace", NULL,
          "trees may have entries; keys that are there already get the new values"},
         {"--transaction", "N",
          "at most so many entries in a transaction (20,000; nor more than 16 MiB)"},
         {"--durability", "LEVEL", "of transactions: none (usual: no log), everysec, or always"},
         {"--page-size", "BYTES", "of a store that is made: 4096 (usual) to 65536"}},
    },
    {
        "copy",
        "FROM TO",
        tool_copy,
        TOOL_BESIDE,
        "write a store anew into another directory, its pages full",
        "TO must not exist, or be empty. It is made as TO.copying and renamed when all of it is on "
        "the\n"
        "device, so it is there whole or not at all. All that is read is checked; damage is never "
        "copied.\n"
        "The log is applied first, as by a start of the server. Beside a running server the "
        "newest\n"
        "checkpoint is copied, without the commits since; so it is with `--checkpoint`.\n",
        {{"--checkpoint", NULL, "what the newest checkpoint holds; nothing in FROM is changed"},
         TRIES},
    },
    {
        "compact",
        "DIRECTORY",
        tool_compact,
        TOOL_STOPPED,
        "write a store's data file anew, its pages full, in place of the old one",
        "As `copy`, but the new file takes the place of the old one, in one step. There has to be "
        "room for\n"
        "both. The log is applied first.\n",
        {{"--in-place", NULL,
          "move pages within the file and cut it off: takes no room, and leaves pages as full as "
          "they are"}},
    },
    {
        "migrate-from-lmdb",
        "FROM TO",
        tool_migrate_from_lmdb,
        TOOL_STOPPED,
        "copy an LMDB environment into a store",
        "FROM is LMDB's directory, or its file if it was made with MDB_NOSUBDIR; it is only read, "
        "and may be\n"
        "in use. Each named database becomes a tree; entries of the unnamed one, if there are any, "
        "go to\n"
        "the tree `main`. Databases with duplicate keys (MDB_DUPSORT) are refused. TO is made, or "
        "is a\n"
        "store without entries in these trees. All is one transaction: an interrupted migration "
        "leaves\n"
        "no entry. Then every entry is read again and compared, and numbers are; status 1 means "
        "that\n"
        "something differs.\n",
        {{"--main", "NAME", "the tree for entries of the unnamed database (main)"},
         {"--page-size", "BYTES", "of a store that is made: 4096 (usual) to 65536"}},
    },
    {
        "migrate-to-lmdb",
        "FROM TO",
        tool_migrate_to_lmdb,
        TOOL_STOPPED,
        "copy a store into a new LMDB environment",
        "TO is the directory, which is made. Each tree becomes a named database. Keys have to have "
        "1 to\n"
        "511 bytes (LMDB's limit). The log is applied first. All is one transaction of LMDB; then "
        "every\n"
        "entry is read again and compared, and numbers are; status 1 means that something "
        "differs.\n",
        {{"--main", "NAME", "this tree goes to the unnamed database"},
         {"--map-size", "BYTES", "of LMDB's map (4 times the data file, at least 1 GiB)"}},
    },
    {
        "salvage",
        "FROM TO",
        tool_salvage,
        TOOL_STOPPED,
        "copy what can be read of a damaged store into a new one",
        "FROM is not changed; TO is made. Trees are read from the newest state whose catalogue can "
        "be\n"
        "read. Where a page is damaged, the whole file is searched for leaves that belong in its "
        "place;\n"
        "of two entries with the same key, that of the page that was written last counts. Leaves "
        "that\n"
        "fit into several trees, or whose trees are not known any more, go to trees whose names "
        "begin\n"
        "with `lost+found`. Then the log is applied as far as it can be read. Every loss is a "
        "finding: the tree, the\n"
        "keys between which it is, how many entries. Status 0 means that nothing was lost.\n",
        {{NULL, NULL, NULL}},
    },
};

const size_t tool_command_count = sizeof tool_commands / sizeof *tool_commands;
