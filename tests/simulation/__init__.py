"""The whole desk in one process, under one seed: what goes wrong between the parts.

The service, clients, stores, journals, closes, reports and the people who use them run as they
ship, in virtual time, on a network and a disk that fail. ``python -m tests.simulation --help`` says
how to replay a seed; the same seed makes the same trace, byte for byte.

========================  =====================================================================
``environment``           time, chance and threads of the process, all from the seed
``schedule``              who runs next: one actor at a time, the others wait at a step
``network``               what lies between the clients and the service
``disk``                  what a file still holds after a power cut
``happenings``            what the people do, and what goes wrong, drawn before a run begins
``desk``                  one run: the service, its people and their machines
``oracles``               what must be so whatever happened
``questions``             what somebody asks for at the end, whose answer is known by hand
``papers``                of approvals, journals, accounts and accepted differences
``cards``                 of payments: what is shown, what comes between, what is waited for
``outcomes``              what becomes of a payment, whatever is answered, whoever else makes it
``shelves``               of stores and lists: elsewhere, published, damaged, odd, weeks later
``edges``                 of lists shared out, filters not heard, stores that others write meanwhile
``reading``               a store's rows by its files alone, for the oracles
``bucket``                a store elsewhere, which two machines write
``sometimes``             the rare states that some seed must reach
``shrink``                the fewest happenings that still fail
``bugs``                  faults planted into the program, to see that they are found
========================  =====================================================================
"""
