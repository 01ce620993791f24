// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Receiver} from "solady/src/accounts/Receiver.sol";
import {EIP712} from "solady/src/utils/EIP712.sol";
import {LibClone} from "solady/src/utils/LibClone.sol";
import {SignatureCheckerLib} from "solady/src/utils/SignatureCheckerLib.sol";
import {UUPSUpgradeable} from "solady/src/utils/UUPSUpgradeable.sol";
import {WebAuthn} from "solady/src/utils/WebAuthn.sol";

/// ERC-4337 user operation as EntryPoint v0.6 passes it.
struct UserOperation {
    address sender;
    uint256 nonce;
    bytes initCode;
    bytes callData;
    uint256 callGasLimit;
    uint256 verificationGasLimit;
    uint256 preVerificationGas;
    uint256 maxFeePerGas;
    uint256 maxPriorityFeePerGas;
    bytes paymasterAndData;
    bytes signature;
}

/// @notice Stands in for the Coinbase Smart Wallet v1.1 on chains of this machine: same interface, same addresses, same answers.
/// Never deployed anywhere: production uses the audited contracts behind the same addresses.
contract PasskeyAccount is EIP712, UUPSUpgradeable, Receiver {
    struct Call {
        address target;
        uint256 value;
        bytes data;
    }

    struct SignatureWrapper {
        uint256 ownerIndex;
        bytes signatureData;
    }

    error AlreadyOwner(bytes owner);
    error Initialized();
    error InvalidEthereumAddressOwner(bytes owner);
    error InvalidNonceKey(uint256 key);
    error InvalidOwnerBytesLength(bytes owner);
    error LastOwner();
    error NoOwnerAtIndex(uint256 index);
    error SelectorNotAllowed(bytes4 selector);
    error Unauthorized();
    error WrongOwnerAtIndex(uint256 index, bytes expectedOwner, bytes actualOwner);

    event AddOwner(uint256 indexed index, bytes owner);
    event RemoveOwner(uint256 indexed index, bytes owner);

    /// Operations under this nonce key, and only these, are signed without the chain's id: owner changes that are valid on every chain.
    uint256 public constant REPLAYABLE_NONCE_KEY = 8453;
    address public constant entryPoint = 0x5FF137D4b0FDCD49DcA30c7CF57E578a026d2789;
    bytes32 private constant MESSAGE_TYPEHASH = keccak256("CoinbaseSmartWalletMessage(bytes32 hash)");

    uint256 public nextOwnerIndex;
    uint256 public ownerCount;
    mapping(uint256 index => bytes owner) public ownerAtIndex;
    mapping(bytes owner => bool) public isOwnerBytes;

    modifier onlyOwner() {
        if (msg.sender != address(this) && !isOwnerAddress(msg.sender)) revert Unauthorized();
        _;
    }

    modifier onlyEntryPoint() {
        if (msg.sender != entryPoint) revert Unauthorized();
        _;
    }

    modifier onlyEntryPointOrOwner() {
        if (msg.sender != entryPoint && msg.sender != address(this) && !isOwnerAddress(msg.sender)) revert Unauthorized();
        _;
    }

    function initialize(bytes[] calldata owners) external payable {
        if (nextOwnerIndex != 0 || _onImplementation()) revert Initialized();
        for (uint256 i = 0; i < owners.length; i++) {
            if (owners[i].length != 32 && owners[i].length != 64) revert InvalidOwnerBytesLength(owners[i]);
            if (owners[i].length == 32 && uint256(bytes32(owners[i])) > type(uint160).max) {
                revert InvalidEthereumAddressOwner(owners[i]);
            }
            _addOwner(owners[i]);
        }
    }

    /// ERC-4337: 0 when the operation is signed by an owner, 1 when not; malformed signatures revert.
    function validateUserOp(UserOperation calldata userOp, bytes32 userOpHash, uint256 missingAccountFunds)
        external
        onlyEntryPoint
        returns (uint256)
    {
        uint256 key = userOp.nonce >> 64;
        bool isForEveryChain = bytes4(userOp.callData) == this.executeWithoutChainIdValidation.selector;
        if (isForEveryChain != (key == REPLAYABLE_NONCE_KEY)) revert InvalidNonceKey(key);
        bytes32 signedHash = isForEveryChain ? getUserOpHashWithoutChainId(userOp) : userOpHash;
        bool isValid = _isValidSignature(signedHash, userOp.signature);
        if (missingAccountFunds != 0) {
            // The EntryPoint looks at what arrived, so the outcome of the call does not matter here.
            (bool sent,) = msg.sender.call{value: missingAccountFunds}("");
            (sent);
        }
        return isValid ? 0 : 1;
    }

    function execute(address target, uint256 value, bytes calldata data) external payable onlyEntryPointOrOwner {
        _call(target, value, data);
    }

    function executeBatch(Call[] calldata calls) external payable onlyEntryPointOrOwner {
        for (uint256 i = 0; i < calls.length; i++) {
            _call(calls[i].target, calls[i].value, calls[i].data);
        }
    }

    /// Calls of the account to itself that mean the same on every chain.
    function executeWithoutChainIdValidation(bytes[] calldata calls) external payable onlyEntryPoint {
        for (uint256 i = 0; i < calls.length; i++) {
            bytes4 selector = bytes4(calls[i]);
            if (!canSkipChainIdValidation(selector)) revert SelectorNotAllowed(selector);
            _call(address(this), 0, calls[i]);
        }
    }

    /// ERC-1271, over a hash bound to this account and chain.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return _isValidSignature(replaySafeHash(hash), signature) ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function addOwnerAddress(address owner) external onlyOwner {
        _addOwner(abi.encode(owner));
    }

    function addOwnerPublicKey(bytes32 x, bytes32 y) external onlyOwner {
        _addOwner(abi.encode(x, y));
    }

    function removeOwnerAtIndex(uint256 index, bytes calldata owner) external onlyOwner {
        bytes memory actual = ownerAtIndex[index];
        if (ownerCount == 1) revert LastOwner();
        if (actual.length == 0) revert NoOwnerAtIndex(index);
        if (keccak256(actual) != keccak256(owner)) revert WrongOwnerAtIndex(index, owner, actual);
        delete isOwnerBytes[actual];
        delete ownerAtIndex[index];
        ownerCount--;
        emit RemoveOwner(index, actual);
    }

    function implementation() external view returns (address $) {
        assembly {
            $ := sload(_ERC1967_IMPLEMENTATION_SLOT)
        }
    }

    function domainSeparator() external view returns (bytes32) {
        return _domainSeparator();
    }

    function canSkipChainIdValidation(bytes4 selector) public pure returns (bool) {
        return selector == this.addOwnerAddress.selector || selector == this.addOwnerPublicKey.selector
            || selector == this.removeOwnerAtIndex.selector || selector == this.upgradeToAndCall.selector;
    }

    /// The EntryPoint's hash of an operation without the chain's id.
    function getUserOpHashWithoutChainId(UserOperation calldata userOp) public pure returns (bytes32) {
        bytes32 packed = keccak256(
            abi.encode(
                userOp.sender,
                userOp.nonce,
                keccak256(userOp.initCode),
                keccak256(userOp.callData),
                userOp.callGasLimit,
                userOp.verificationGasLimit,
                userOp.preVerificationGas,
                userOp.maxFeePerGas,
                userOp.maxPriorityFeePerGas,
                keccak256(userOp.paymasterAndData)
            )
        );
        return keccak256(abi.encode(packed, entryPoint));
    }

    function isOwnerAddress(address owner) public view returns (bool) {
        return isOwnerBytes[abi.encode(owner)];
    }

    function isOwnerPublicKey(bytes32 x, bytes32 y) public view returns (bool) {
        return isOwnerBytes[abi.encode(x, y)];
    }

    function replaySafeHash(bytes32 hash) public view returns (bytes32) {
        return _hashTypedData(keccak256(abi.encode(MESSAGE_TYPEHASH, hash)));
    }

    function _addOwner(bytes memory owner) private {
        if (isOwnerBytes[owner]) revert AlreadyOwner(owner);
        uint256 index = nextOwnerIndex++;
        ownerCount++;
        isOwnerBytes[owner] = true;
        ownerAtIndex[index] = owner;
        emit AddOwner(index, owner);
    }

    function _isValidSignature(bytes32 hash, bytes calldata signature) private view returns (bool) {
        SignatureWrapper memory wrapper = abi.decode(signature, (SignatureWrapper));
        bytes memory owner = ownerAtIndex[wrapper.ownerIndex];
        if (owner.length == 32) {
            address signer = abi.decode(owner, (address));
            return SignatureCheckerLib.isValidSignatureNow(signer, hash, wrapper.signatureData);
        }
        if (owner.length != 64) revert InvalidOwnerBytesLength(owner);
        (bytes32 x, bytes32 y) = abi.decode(owner, (bytes32, bytes32));
        WebAuthn.WebAuthnAuth memory auth = abi.decode(wrapper.signatureData, (WebAuthn.WebAuthnAuth));
        return WebAuthn.verify(abi.encode(hash), false, auth, x, y);
    }

    function _call(address target, uint256 value, bytes calldata data) private {
        (bool success, bytes memory result) = target.call{value: value}(data);
        if (success) return;
        assembly {
            revert(add(result, 32), mload(result))
        }
    }

    function _authorizeUpgrade(address) internal view override onlyOwner {}

    function _domainNameAndVersion() internal pure override returns (string memory, string memory) {
        return ("Coinbase Smart Wallet", "1");
    }
}

/// @notice Stands in for the factory of the same wallet: the same owners and nonce give the same address as in production.
contract PasskeyAccountFactory {
    error OwnerRequired();

    event AccountCreated(address indexed account, bytes[] owners, uint256 nonce);

    address public constant implementation = 0x00000110dCdEdC9581cb5eCB8467282f2926534d;

    /// Does nothing for an account that exists.
    function createAccount(bytes[] calldata owners, uint256 nonce) external payable returns (PasskeyAccount account) {
        if (owners.length == 0) revert OwnerRequired();
        (bool exists, address at) = LibClone.createDeterministicERC1967(msg.value, implementation, _salt(owners, nonce));
        account = PasskeyAccount(payable(at));
        if (exists) return account;
        emit AccountCreated(at, owners, nonce);
        account.initialize(owners);
    }

    function getAddress(bytes[] calldata owners, uint256 nonce) external view returns (address) {
        return LibClone.predictDeterministicAddressERC1967(implementation, _salt(owners, nonce), address(this));
    }

    function initCodeHash() external pure returns (bytes32) {
        return LibClone.initCodeHashERC1967(implementation);
    }

    function _salt(bytes[] calldata owners, uint256 nonce) private pure returns (bytes32) {
        return keccak256(abi.encode(owners, nonce));
    }
}
