"""A mail reader: stores, lists, fetches and searches messages, some large: `imap.py PORT`."""

import imaplib
import sys

import marks


def main() -> None:
    boxes = [imaplib.IMAP4("127.0.0.1", int(sys.argv[1]), timeout=30) for _ in range(3)]
    for number, box in enumerate(boxes):
        print(box.login(f"user{number}", "word")[0])
    marks.make("connected")
    marks.wait("looked")
    for number, box in enumerate(boxes):
        converse(number, box)
    try:
        imaplib.IMAP4("127.0.0.1", int(sys.argv[1]), timeout=30).login("user", "wrong")
    except imaplib.IMAP4.error as error:
        print(error)


def converse(number: int, box: imaplib.IMAP4) -> None:
    """Twenty messages of growing size, there and back."""
    texts = [message(number, size * 40_000) for size in range(20)]
    print({box.append("INBOX", None, None, text)[0] for text in texts})
    print(box.select("INBOX"))
    parts = box.fetch("1:*", "(RFC822)")[1]
    print([part[1] for part in parts if isinstance(part, tuple)] == texts)
    print(box.search(None, "SUBJECT", '"number 7"'), box.store("3", "+FLAGS", "\\Deleted")[0], box.expunge())
    print(box.logout()[0])


def message(number: int, size: int) -> bytes:
    line = b"0123456789" * 7 + b"\r\n"
    head = b"From: a@localhost\r\nSubject: number %d\r\n\r\n" % (number + size // 40_000)
    return head + line * (size // len(line))


main()
